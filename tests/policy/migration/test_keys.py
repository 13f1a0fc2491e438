"""The keys of a step that only the state of a migration reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.stacks.agent_mail.pipeline.plan import KillSwitch
from harness.core.errors import BadPolicy
from harness.policy.load import load_policy
from tests.policy.test_load import GOOD, MAIL


def written(folder: Path, keys: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(GOOD.replace("taken = false\n", f"taken = false\n{keys}", 1))
    return path


def test_both_are_optional_and_read(tmp_path: Path) -> None:
    first, second = load_policy(written(tmp_path, 'switch = "shadow"\nshadow_days = 14\n')).steps
    assert (first.switch, first.shadow_days) == ("shadow", 14)
    assert (second.switch, second.shadow_days) == (None, 0)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("shadow_days = 0\n", "shadow_days"),
        ("shadow_days = 1.5\n", "shadow_days"),
        ("shadow_days = true\n", "shadow_days"),
        ('switch = ""\n', "switch"),
        ('switch = "fts5\\nX=1"\n', "switch"),
    ],
)
def test_an_impossible_value_is_named_with_its_line(tmp_path: Path, keys: str, says: str) -> None:
    with pytest.raises(BadPolicy, match=says) as told:
        load_policy(written(tmp_path, keys))
    assert told.value.line == 15


def test_message_search_sets_the_switch_that_its_service_knows() -> None:
    steps = {step.name: step for step in load_policy(MAIL).steps}
    assert {step.switch for step in steps.values()} - {None} <= {str(one) for one in KillSwitch}
    assert steps["shadow"].switch == "shadow"
    assert steps["tantivy"].shadow_days == 14
