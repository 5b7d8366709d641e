from __future__ import annotations

from pathlib import Path

import pytest

from gateway.compiling import compiled
from gateway.config.loader import load
from gateway.errors import ConfigError
from tests.kit.configs import loaded


def test_policies_and_alerts_are_compiled_with_the_place_of_each_fault(tmp_path: Path) -> None:
    assert compiled(loaded()).policies == ()
    text = "alerts:\n  hours: 'Mon 99:00'\n"
    (tmp_path / "gateway.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        compiled(load(tmp_path / "gateway.yaml", {}))
    [problem] = caught.value.problems
    assert (problem.path, problem.line) == ("alerts.hours", 2)
