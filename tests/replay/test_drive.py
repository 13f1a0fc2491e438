"""A query set through one arm, in parts that outlive a killed process."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.core.engine import Manifest
from harness.core.records import Query
from harness.core.run import Conditions, Run
from harness.replay import drive as module
from harness.replay.drive import drive
from tests.make.arms import Table, queries, raising

TEN = queries(10)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART", 4)


def replay(
    arm: Table,
    parts: Path,
    asked: Sequence[Query] = TEN,
    **changed: Any,  # noqa: ANN401  settings of any type
) -> Run:
    usual: dict[str, Any] = {
        "k": 3,
        "time_limit_s": 60.0,
        "seed": 7,
        "code_sha256": "c0de",
        "advance": lambda _: None,
    }
    return drive(arm.name, arm, asked, parts=parts, **usual | changed)


def rows(run: Run) -> list[object]:
    return list(run.rows())


def test_every_query_is_asked_once_and_stands_in_its_place(tmp_path: Path) -> None:
    arm = Table()
    run = replay(arm, tmp_path)
    assert sorted(arm.asked()) == [query.text for query in TEN]
    assert {k for _, _, k in arm.diary} == {3}
    assert run.query_ids == tuple(query.query_id for query in TEN)
    assert run.arm == "table"
    for query in TEN:
        assert run.ranking(query.query_id) == (f"about {query.text}",)


def test_the_order_of_asking_is_seeded_and_the_run_is_not(tmp_path: Path) -> None:
    orders, runs = [], []
    for at, seed in enumerate((7, 7, 8)):
        arm = Table()
        runs.append(rows(replay(arm, tmp_path / str(at), seed=seed)))
        orders.append(arm.asked())
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert orders[0] != [query.text for query in TEN]
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("dies_at", [0, 3, 4, 5, 8, 9])
def test_after_a_kill_only_the_rest_is_asked(tmp_path: Path, dies_at: int) -> None:
    whole = Table()
    expected = rows(replay(whole, tmp_path / "whole"))
    order = list(whole.asked())
    dying = Table(answers={order[dies_at]: raising(KeyboardInterrupt())})
    with pytest.raises(KeyboardInterrupt):
        replay(dying, tmp_path / "parts")
    assert dying.asked() == order[: dies_at + 1]
    finished = dies_at // 4
    assert len(list((tmp_path / "parts").glob("*"))) == finished
    resumed = Table()
    assert rows(replay(resumed, tmp_path / "parts")) == expected
    assert resumed.asked() == order[4 * finished :]


@pytest.mark.parametrize(
    "changed",
    [{"code_sha256": "other"}, {"k": 2}, {"time_limit_s": 1.0}, {"seed": 8}],
    ids=lambda changed: next(iter(changed)),
)
def test_whatever_a_part_depends_on_asks_again(tmp_path: Path, changed: dict[str, Any]) -> None:
    replay(Table(), tmp_path)
    again = Table()
    replay(again, tmp_path, **changed)
    assert len(again.diary) == 10


def test_another_build_of_the_same_arm_asks_again(tmp_path: Path) -> None:
    class Rebuilt(Table):
        @property
        def manifest(self) -> Manifest:
            return replace(Table().manifest, corpus_sha256="0ther")

    replay(Table(), tmp_path)
    again = Rebuilt()
    found = replay(again, tmp_path)
    assert len(again.diary) == 10
    assert {row.served_by for row in found.rows()} == {again.manifest.fingerprint}


def test_a_run_says_under_which_conditions_it_was_asked(tmp_path: Path) -> None:
    assert replay(Table(), tmp_path, k=2, time_limit_s=3.0).conditions == Conditions(2, 3.0)
