from __future__ import annotations

from pydantic import BaseModel, Field

from gateway.config.prose import described, models_below, texts_of
from gateway.config.root import Config, Listen


class Base(BaseModel):
    """Not a text of a field."""

    first: int = 1
    """The first,
    in two lines."""
    silent: int = 2
    other: int = 3
    """Of the base."""


class Derived(Base):
    renamed_: list[dict[str, Base]] | None = Field(default=None, alias="renamed")
    """By the key that is written."""
    other: int = 4
    """Of its own."""


def test_a_text_belongs_to_the_field_above_it() -> None:
    assert texts_of(Derived) == {
        "first": "The first,\nin two lines.",
        "renamed": "By the key that is written.",
        "other": "Of its own.",
    }


def test_fields_get_their_texts_and_the_models_keep_none() -> None:
    assert described(Listen)["port"].description == "Port to bind; 0 takes a free one."
    assert described(Derived)["silent"].description is None
    assert Listen.model_fields["port"].description is None


def test_every_model_below_one_is_found_once() -> None:
    assert models_below(Derived) == {Derived, Base}
    assert Listen in models_below(Config)
