"""Search functions behind one, whose lists are mixed where an operator said so."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from harness import Interleaver, load_clicks
from harness.clicks.credit import read, team_draft
from harness.core.errors import EvidenceError, InvalidArm
from harness.core.folders import NotOurs
from harness.migrate import moves
from harness.migrate.ledger import interleave
from harness.policy.load import load_policy
from tests.make.shadow.attempts import WATCH

BEFORE = datetime(2026, 1, 2, tzinfo=UTC)
ARMS = ("old", "new")


def old(_: str) -> list[str]:
    return ["a", "b", "c"]


def new(_: str) -> dict[str, float]:
    return {"c": 3.0, "d": 2.0, "a": 1.0}


def broken(_: str) -> list[str]:
    raise TimeoutError("the new one hangs")


def shapeless(_: str) -> list[str]:
    return 3  # type: ignore[return-value]


@pytest.fixture
def on(tmp_path: Path) -> Path:
    """Begin a migration in which the operator switched mixing on."""
    folder = tmp_path / "migration"
    moves.begin(folder, load_policy(WATCH.parent / "mail.toml"), "fts5", now=BEFORE, by="ada")
    interleave(folder, ARMS, reason="to see", now=BEFORE, by="ada")
    return folder


def test_while_it_is_off_users_see_the_serving_list(tmp_path: Path) -> None:
    both = Interleaver(
        {"old": old, "new": broken}, log=tmp_path / "log", ledger=tmp_path / "migration", seed=1
    )
    shown = both.search("red")
    assert (shown.documents, shown.arms, shown.failed) == (("a", "b", "c"), ("old",), "")
    with pytest.raises(EvidenceError, match="shows no mixed list"):
        load_clicks(tmp_path / "log", confidence=0.95)


def test_clicks_on_mixed_lists_are_credited(tmp_path: Path, on: Path) -> None:
    both = Interleaver({"old": old, "new": new}, log=tmp_path / "log", ledger=on, seed=1)
    for at in range(200):
        shown = both.search("red", 3, user=f"u{at // 2}")
        assert len({*shown.documents}) == 3
        if "d" in shown.documents:
            both.click(shown.id, "d")
    both.close()
    found = load_clicks(tmp_path / "log", confidence=0.95)
    one = found.found.candidates["new"]
    assert one.losses == 0
    assert one.wins > 30
    assert one.estimate.low > 0
    assert found.found.users == 100
    assert found.frame().loc["new", "wins"] == one.wins
    assert "new against old: +" in repr(found)
    assert "Users who prefer to old" in found._repr_html_()
    kept = read(tmp_path / "log").shown[0]
    assert team_draft(["abc", "cda"], 3, Random(f"1 {kept.id}")) == kept.mixed


@pytest.mark.parametrize("candidate", [broken, shapeless])
def test_a_candidate_that_fails_costs_no_user_a_list(
    tmp_path: Path, on: Path, candidate: object
) -> None:
    both = Interleaver(
        {"old": old, "new": candidate},  # type: ignore[dict-item]
        log=tmp_path / "log", ledger=on, seed=1,
    )  # fmt: skip
    shown = both.search("red", 2)
    assert shown.documents == ("a", "b")
    assert shown.failed.startswith("new: ")


def test_where_the_serving_one_fails_it_is_said(tmp_path: Path, on: Path) -> None:
    both = Interleaver({"old": broken, "new": new}, log=tmp_path / "log", ledger=on, seed=1)
    with pytest.raises(InvalidArm, match="old: TimeoutError: the new one hangs"):
        both.search("red")


def test_a_foreign_folder_and_a_single_function_are_refused(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "notes.txt").write_text("mine")
    with pytest.raises(NotOurs, match="did not write"):
        Interleaver({"old": old, "new": new}, log=tmp_path / "log", ledger=tmp_path / "m", seed=1)
    with pytest.raises(EvidenceError, match="give two search functions or more"):
        Interleaver({"old": old}, log=tmp_path / "own", ledger=tmp_path / "m", seed=1)
