from __future__ import annotations

from pathlib import Path

from gateway.config.reference import render, rows
from gateway.config.root import Config
from gateway.config.shape import fields_of

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_what_the_models_say() -> None:
    """Run ``python docs/generate_config.py`` when this fails."""
    example = (DOCS / "gateway.example.yaml").read_text(encoding="utf-8")
    assert (DOCS / "config.md").read_text(encoding="utf-8") == render(example)


def test_every_section_says_whether_it_reloads() -> None:
    page = render("")
    takes = dict.fromkeys(("listen", "admin", "state", "audit"), "restart")
    for section in fields_of(Config):
        assert f"### `{section}` ({takes.get(section, 'reload')})\n" in page


def test_keys_have_type_default_and_meaning() -> None:
    found = {row.path: row for section, info in fields_of(Config).items() for row in rows(section, info)}
    assert (found["listen.port"].kind, found["listen.port"].default) == ("whole number, from 0 to 65535", "`8080`")
    assert (found["listen.drain"].kind, found["listen.drain"].default) == ("duration", "`20s`")
    assert (found["listen.max_body"].kind, found["listen.max_body"].default) == ("size", "`4MiB`")
    assert (found["limits.requests"].kind, found["limits.requests"].default) == ("rate", "`6000/minute`")
    assert (found["clients.NAME.key"].kind, found["clients.NAME.key"].default) == ("text, *secret*", "–")
    assert found["servers.NAME.env"].kind == "mapping of names to text, *secret*"
    assert found["servers.NAME.tools.include"].default == "`[*]`"
    assert found["servers.NAME.validate"].kind == "`enforce`, `warn`, `off`"
    assert found["policies[].allow"].kind == "list of text or mapping"
    assert found["policies[].allow[].tools"].default == "*required*"
    assert found["listen.tls"].kind == "mapping"
    assert all(row.meaning for row in found.values())
