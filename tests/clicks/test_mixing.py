"""The list that is shown (mixing.py): written down before it is, and drawn again from the log."""

from __future__ import annotations

from pathlib import Path
from random import Random

from harness.clicks.credit import ClickLog, ListMixer, read, team_draft

RANKINGS = ("abc", "cde")


def test_a_list_is_in_the_log_when_it_is_given(tmp_path: Path) -> None:
    lists = ListMixer(ClickLog(tmp_path), seed=5)
    shown = [lists.show(("old", "new"), RANKINGS, 4, query="q", user="s") for _ in range(20)]
    assert (*shown,) == read(tmp_path).shown
    assert {len(one.documents) for one in shown} == {4}
    assert len({one.teams for one in shown}) > 1
    for one in shown:
        assert one.mixed == team_draft(RANKINGS, 4, Random(f"5 {one.id}"))


def test_a_failure_or_a_single_arm_shows_the_first_ranking(tmp_path: Path) -> None:
    lists = ListMixer(ClickLog(tmp_path), seed=5)
    failed = lists.show(("old", "new"), RANKINGS, 2, query="q", failed="new: it broke")
    alone = lists.show(("old",), RANKINGS[:1], 2, query="q")
    for one in (failed, alone):
        assert (one.documents, one.teams, one.user) == (("a", "b"), (0, 0), "")
