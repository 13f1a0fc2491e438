"""A shadow log in a notebook: denominators, estimates, frames, and both sides of a divergence."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path

import pandas as pd
import pytest

from harness import draw_sequences, load_shadow_log
from harness.agreement import Class, Tally
from harness.core.errors import BadFile, BadPolicy, EvidenceError
from harness.core.run import Status
from harness.shadow.api import Watched
from harness.shadow.log import Log
from harness.shadow.record import Degradation, Divergence, Kind, Observation
from tests.make.shadow.attempts import START, WATCH, attempt, divergence, seen, shed

HOSTILE = "<img src=x onerror=alert(1)>\u202e|`"
LATE = seen(status=Status.TIMED_OUT, elapsed_ns=9_000_000, hits=0)
OBSERVED = [
    *(attempt(n, text=f"q{n}", slices=("words",), candidate=seen(elapsed_ns=2_500_000))
      for n in range(1, 81)),
    attempt(81, text=HOSTILE, outcome=Class.DISJOINT, jaccard=0.0),
    attempt(82, text="ties", outcome=Class.TIE_ORDER),
    attempt(83, text="slow", outcome=Class.TIMEOUT, jaccard=None, candidate=LATE, reason="late"),
    shed(84),
    shed(85, reason=HOSTILE),
]  # fmt: skip
DIVERGED = [
    divergence(81, Class.DISJOINT, ["a", HOSTILE], ["c"], text=HOSTILE),
    divergence(82, Class.TIE_ORDER, ["a", "b"], ["b", "a"], text="ties"),
    replace(
        divergence(83, Class.TIMEOUT, ["a"], [], text="slow"),
        candidate=replace(
            divergence(1, Class.TIMEOUT, [], []).candidate, status=Status.TIMED_OUT, error="late"
        ),
    ),
]
ACCEPTED = """
[[accepted]]
class = "tie_order"
reason = "no reader sees it"
by = "Ada"
until = 2026-11-22
"""


def written(
    folder: Path, observed: list[Observation], diverged: list[Divergence], lost: int = 0
) -> Path:
    """Write a log; ``lost`` attempts at its end are known by a degradation alone."""
    with Log(folder, rotate_bytes=10**7, sync_ns=10**12) as log:
        last = max((one.number for one in observed), default=0)
        note = Degradation(last + lost, log.writer, START, "candidate", Kind.TIMEOUT, "late")
        log.append(
            [replace(one, writer=log.writer) for one in observed],
            [replace(one, writer=log.writer) for one in diverged],
            [note],
        )
    return folder


def load(folder: Path, *more: Path, accepted: Path | None = None) -> Watched:
    day = date(2026, 11, 22)
    return load_shadow_log(folder, *more, bounds=WATCH, accepted=accepted, today=day)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return load(written(tmp_path_factory.mktemp("log"), OBSERVED, DIVERGED, lost=2))


def test_the_denominators_add_up_and_come_first(log: Watched) -> None:
    assert log.tally == Tally(attempted=85, compared=82, errored=1, skipped=0, shed=2)
    assert log.missing == 2
    said = repr(log)
    assert "attempted 85 = compared 82 + errored 1 + skipped 0 + shed 2; lost beside: 2" in said
    page = log._repr_html_()
    order = [
        "Request accounting",
        "How sure",
        "Attempts by class",
        "Alarms",
        "that diverge",
    ]
    assert sorted(order, key=page.index) == order
    assert ">82<br><small>96.5 %</small></td>" in page


def test_estimates_are_confidence_sequences_over_their_own_pairs(log: Watched) -> None:
    overlap, failures, ratio = (log.estimates[name] for name in ("overlap", "failures", "ratio"))
    assert overlap is not None
    assert failures is not None
    assert ratio is not None
    assert (overlap.value, overlap.n) == (81 / 82, 82)
    assert overlap.low < 81 / 82 < overlap.high <= 1
    assert (failures.value, failures.n) == (1 / 83, 83)
    assert ratio.low <= 2.5 <= ratio.high
    assert ratio.n == 83


def test_a_frame_has_every_attempt(log: Watched) -> None:
    frame = log.frame().set_index("number")
    assert list(frame["outcome"].value_counts().loc[["exact", "shed", "timeout"]]) == [80, 2, 1]
    assert str(frame["at"].dtype).endswith("UTC]")
    assert frame.loc[1, "at"] == pd.Timestamp(START + 10**9, tz="UTC")
    assert frame.loc[83, "candidate_ns"] == 9_000_000
    assert frame["candidate_ns"].isna().sum() == 2
    assert frame["jaccard"].notna().sum() == 82
    assert list(frame.columns) == list(load_columns())


def load_columns() -> tuple[str, ...]:
    about = "writer", "at", "query", "slices", "outcome", "reason"
    return (*about, "jaccard", "rbo", "control_ns", "candidate_ns")


def test_an_arm_that_was_not_asked_has_no_time(tmp_path: Path) -> None:
    nobody = seen(status=Status.NOT_ASKED, elapsed_ns=0, hits=0)
    one = attempt(1, outcome=Class.SKIPPED, jaccard=None, candidate=nobody)
    row = load(written(tmp_path, [one], [])).frame().iloc[0]
    assert row["control_ns"] == 1_000_000
    assert row["candidate_ns"] is pd.NA


def test_an_empty_log_is_a_log(tmp_path: Path) -> None:
    log = load(written(tmp_path, [], []))
    assert log.tally.attempted == 0
    assert set(log.estimates.values()) == {None}
    assert log.early
    assert list(log.frame().columns) == ["number", *load_columns()]
    assert repr(log.worst(3)) == "nothing"
    assert "Nothing diverged" in log.worst(3)._repr_html_()
    assert "No attempt was written down yet" in log._repr_html_()
    with pytest.raises(EvidenceError, match="nothing to draw"):
        draw_sequences(log)


def test_both_sides_are_beside_each_other_the_worst_first(log: Watched) -> None:
    assert [one.outcome for one in log.worst(9).queries] == ["disjoint", "tie_order", "timeout"]
    assert len(log.worst(1).queries) == 1
    said = log.worst(9)._repr_html_().replace(" style='text-align:left'", "")
    ties = said[said.index("ties: tie_order") :]
    assert "<td>a (down 1)</td><td>b (up 1)</td>" in ties
    assert "candidate was given up: late" in said
    assert "<td>a (gone)</td><td></td>" in said[said.index("slow: timeout") :]


def test_an_alarm_is_told(tmp_path: Path) -> None:
    twice = [attempt(n, text=f"q{n}", candidate=seen(duplicates=1)) for n in range(1, 40)]
    log = load(written(tmp_path, twice, []))
    assert [(one.name, one.arm) for one in log.raised] == [("duplicates", "candidate")]
    assert "1 alarm raised (duplicates)" in repr(log)
    assert len(log.alarms) > len(log.raised)


def test_what_is_accepted_is_told_and_comes_last(log: Watched, tmp_path: Path) -> None:
    suppressions = tmp_path / "accepted.toml"
    suppressions.write_text(ACCEPTED)
    folder = written(tmp_path / "log", OBSERVED, DIVERGED)
    ties = [
        one for one in load(folder, accepted=suppressions).worst(9).queries if one.text == "ties"
    ]
    assert [one.blocks for one in ties] == [False]
    assert [one.blocks for one in log.worst(9).queries if one.text == "ties"] == [True]


def test_texts_of_strangers_are_escaped(log: Watched) -> None:
    for said in (log._repr_html_(), log.worst(9)._repr_html_()):
        assert "<img" not in said
        assert "&lt;img src=x onerror=alert(1)&gt;⟨U+202E⟩" in said


def test_how_it_closed_in_is_drawn(log: Watched) -> None:
    drawing = draw_sequences(log)
    assert "overlap (mean Jaccard) 0.9878 [" in repr(drawing)
    assert drawing._repr_svg_() == draw_sequences(log)._repr_svg_()
    assert "median time ratio" in drawing._repr_svg_()


def test_two_logs_are_read_as_one_and_one_log_not_as_two(tmp_path: Path) -> None:
    folders = [written(tmp_path / "a", OBSERVED, DIVERGED)]
    later = [replace(one, at=one.at + 1) for one in OBSERVED]
    folders.append(written(tmp_path / "b", later, DIVERGED))
    assert load(*folders).tally.attempted == 170
    with pytest.raises(EvidenceError, match="give each log once"):
        load(folders[0], folders[0])


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="its log is missing"):
        load(tmp_path)
    written(tmp_path / "log", OBSERVED, DIVERGED)
    with pytest.raises(BadPolicy, match=r"absent\.toml"):
        load_shadow_log(tmp_path / "log", bounds=tmp_path / "absent.toml")
    with pytest.raises(BadPolicy, match=r"absent\.toml"):
        load(tmp_path / "log", accepted=tmp_path / "absent.toml")
