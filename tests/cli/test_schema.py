from __future__ import annotations

import json

import pytest

from gateway.cli.main import main
from gateway.config.schema import config_schema, policy_file_schema


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_the_schema_of_the_config_is_printed(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", *more]) == 0
    assert json.loads(capsys.readouterr().out) == config_schema()


def test_the_schema_of_a_policy_file_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--policies"]) == 0
    assert json.loads(capsys.readouterr().out) == policy_file_schema()
