"""Search functions compared and interleaved, engines checked, and logs of a live comparison."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

import harness
from harness import Interleaver, draw_sequences, load_clicks, load_shadow_log
from harness.agreement import Class, ComparisonTally
from harness.api.comparison import Inference, compare, near_duplicates
from harness.api.contract import EngineCheck, engine_contract
from harness.api.search import EngineComparison, compare_engines, shown_by
from harness.check.checks import CONTRACT_CHECKS
from harness.clicks.credit import read, team_draft
from harness.core.engine import Answer
from harness.core.errors import BadFile, BadName, BadPolicy, EvidenceError, InvalidArm, RunError
from harness.core.files import place
from harness.core.folders import NotOurs
from harness.core.records import Document
from harness.core.run import Status
from harness.migrate import moves
from harness.migrate.ledger import interleave
from harness.policy.load import load_policy
from harness.shadow.api import Watched
from harness.shadow.divergences import SuppressionStatus
from harness.shadow.log import LogWriter
from harness.shadow.record import Degradation, Divergence, Observation, ProblemKind
from tests.docs.pages import ROOT
from tests.make.arms import Toy, ToySearcher, keeps
from tests.make.shadow_records import START, WATCH, attempt, divergence, seen, shed

WORDS = ["ships", "cars", "trees", "birds", "stones", "rivers", "clouds", "sand", "bread", "glass"]


QUERIES = {f"q{at}": " ".join([word] * 3) for at, word in enumerate(WORDS)}


QRELS = {query_id: {"d1": 1, "d2": 0} for query_id in QUERIES}


MEASURES = ["nDCG@10", "RR"]


def late(_: str) -> list[str]:
    return ["d2", "d1"]


def early(text: str) -> list[tuple[str, float]]:
    return [("d2", 7.0), ("d1", 3.0)] if "cars" in text else [("d1", 7.0), ("d2", 3.0)]


def by_score(_: str) -> dict[str, float]:
    return {"d2": 1.0, "d1": 9.0}


def compared(control: Any, candidate: Any, sure: Inference, **more: Any) -> EngineComparison:  # noqa: ANN401
    return compare_engines(control, candidate, QUERIES, QRELS, MEASURES, sure=sure, **more)


def test_it_is_what_compare_says_of_the_two_runs(sure: Inference) -> None:
    engine_comparison = compared(late, early, sure, names=("old", "new"))
    together = near_duplicates(QUERIES)
    runs = shown_by(late, QUERIES, "old"), shown_by(early, QUERIES, "new")
    for measure in MEASURES:
        same = compare(*runs, QRELS, measure, sure=sure, intents=together)
        assert engine_comparison.differences[measure].estimate == same.estimate
        assert engine_comparison.differences[measure].p_value == same.p_value
    assert (engine_comparison.control.arm, engine_comparison.candidate.arm) == ("old", "new")
    assert engine_comparison.differences["RR"].estimate.value == pytest.approx(0.45)


def test_the_worse_queries_come_with_the_greatest_loss_first(sure: Inference) -> None:
    engine_comparison = compared(by_score, early, sure, intents={})
    assert engine_comparison.worse("RR") == ("q1",)
    assert engine_comparison.differences["RR"].better == ()
    row = engine_comparison.frame().loc["RR"]
    assert (row["control"], row["queries"], row["worse"]) == (1.0, 10, 1)
    assert row["low"] <= row["difference"] == pytest.approx(-0.05)


def test_it_is_frozen_and_shows_itself(sure: Inference) -> None:
    engine_comparison = compared(late, early, sure)
    with pytest.raises(FrozenInstanceError):
        engine_comparison.control = engine_comparison.candidate  # type: ignore[misc]
    assert repr(engine_comparison).startswith("candidate against control, nDCG@10: +")
    assert "<caption" in engine_comparison._repr_html_()
    assert "candidate compared with control" in engine_comparison._repr_html_()


def test_a_query_that_raises_has_no_value_and_is_named(sure: Inference) -> None:
    def fails(text: str) -> list[str]:
        if "birds" in text:
            raise ConnectionError("refused")
        return ["d1"]

    engine_comparison = compared(late, fails, sure)
    (said,) = engine_comparison.failures["candidate"].values()
    assert re.fullmatch(r"ConnectionError: refused \(test_searching\.py:\d+\)", said)
    assert (
        list(engine_comparison.failures["candidate"]),
        engine_comparison.failures["control"],
    ) == (["q3"], {})
    assert engine_comparison.differences["RR"].estimate.n == 9
    assert engine_comparison.differences["RR"].paired.unpaired == ("q3",)
    assert "candidate failed on 1" in repr(engine_comparison)
    assert "candidate failed on 1" in engine_comparison._repr_html_()
    assert engine_comparison.candidate.count(Status.FAILED) == 1


def test_a_generator_that_raises_late_is_a_failed_query(sure: Inference) -> None:
    def fails(text: str) -> Any:  # noqa: ANN401  a generator
        yield "d1"
        if "birds" in text:
            raise TimeoutError

    (said,) = compared(late, fails, sure).failures["candidate"].values()
    assert said.startswith("TimeoutError: (test_searching.py:")


def test_a_function_that_raises_on_every_query_did_not_run(sure: Inference) -> None:
    with pytest.raises(InvalidArm, match="ZeroDivisionError"):
        compared(late, lambda _: 1 / 0, sure)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("d1", "candidate: query q0: gives a str. Return document ids"),
        (None, "gives a NoneType. Return"),
        ([3], "rank 1 is a int"),
        ([("d1", 1.0, "x")], "rank 1 is a tuple"),
        ([("d1", "high")], r"rank 1 is \('d1', 'high'\)"),
        ([(1, 2.0)], r"rank 1 has the number 1\. Give str\(1\)"),
        ([("d1", 1.0), ("d2", 2.0)], "rank 2 scores 2.0, more than the rank before it. Sort"),
        ([("d1", float("nan"))], "a score must be a finite number"),
        ({"d1": float("inf")}, "the score inf of d1 is not a finite number"),
    ],
)
def test_what_is_no_ranking_is_named(given: object, said: str, sure: Inference) -> None:
    with pytest.raises(RunError, match=said):
        compared(late, lambda _: given, sure)


def test_a_document_shown_twice_is_said(sure: Inference) -> None:
    engine_comparison = compared(late, lambda _: ["d1", "d1", "d2"], sure)
    says = "candidate showed a document twice on 10, and only the first place counts"
    assert says in repr(engine_comparison)
    assert says in engine_comparison._repr_html_()


def test_judgements_of_other_queries_are_told_from_missing_ones(sure: Inference) -> None:
    with pytest.raises(EvidenceError, match="queries are named as 'q0', judgements as 'x'"):
        compare_engines(late, late, QUERIES, {"x": {"d1": 1}}, MEASURES, sure=sure)


def test_an_empty_answer_is_an_answer(sure: Inference) -> None:
    engine_comparison = compared(late, lambda _: [], sure)
    assert engine_comparison.differences["RR"].estimate.value == -0.5
    assert engine_comparison.failures["candidate"] == {}


def test_names_and_queries_are_needed(sure: Inference) -> None:
    with pytest.raises(EvidenceError, match="two engines are named a"):
        compared(late, late, sure, names=("a", "a"))
    with pytest.raises(BadName):
        compared(late, late, sure, names=("a", "b c"))
    for queries, measures in (({}, MEASURES), (QUERIES, [])):
        with pytest.raises(EvidenceError, match="nothing to compare"):
            compare_engines(late, late, queries, QRELS, measures, sure=sure)


def test_one_measure_may_be_a_word_and_queries_have_ids(sure: Inference) -> None:
    engine_comparison = compare_engines(late, early, QUERIES, QRELS, "RR", sure=sure)
    assert list(engine_comparison.differences) == ["RR"]
    with pytest.raises(EvidenceError, match="queries is a list; give a mapping of query id"):
        compare_engines(late, early, ["birds"], QRELS, ["RR"], sure=sure)  # type: ignore[arg-type]


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


OWN = ROOT / "examples" / "own_engine" / "own.toml"


SUITE = f"""
import pytest
from harness import engine_contract

@pytest.mark.parametrize("check", engine_contract({str(OWN)!r}), ids=str)
def test_own_engine(check):
    check()
"""


def served_by_another(searcher: ToySearcher, text: str, k: int) -> Answer:
    return replace(keeps(searcher, text, k), served_by="x")


@pytest.mark.parametrize("check", engine_contract(OWN), ids=str)
def test_the_example_keeps_the_contract(check: EngineCheck) -> None:
    check()


def test_it_is_a_name_of_the_package() -> None:
    assert harness.engine_contract is engine_contract
    assert [str(check) for check in engine_contract(OWN)] == [
        check.name for check in CONTRACT_CHECKS
    ]


def test_a_broken_promise_fails_with_what_to_do() -> None:
    checks = {str(check): check for check in engine_contract(Toy(served_by_another))}
    checks["ties"]()
    with pytest.raises(AssertionError, match=r"(?s)identity: broken.*To fix: Give self\.manifest"):
        checks["identity"]()


def test_what_cannot_be_checked_is_no_pass() -> None:
    def fails(*_: object) -> Answer:
        raise ValueError

    checks = {str(check): check for check in engine_contract(Toy(fails))}
    with pytest.raises(AssertionError, match="ties: not checked"):
        checks["ties"]()


def test_documents_of_ones_own() -> None:
    mine = (Document("a", "Ships", "A ship at sea."), Document("b", "Cars", "A car on a road."))
    checks = engine_contract(Toy(), documents=mine, queries=["ship", "a road"])
    left = {"processes", *(check.name for check in CONTRACT_CHECKS if check.own_documents)}
    assert {str(check) for check in checks} == {check.name for check in CONTRACT_CHECKS} - left
    for check in checks:
        check()


def test_a_wrong_file_is_named_when_it_is_needed(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("stack = 3\n")
    first, *_ = engine_contract(tmp_path / "own.toml")
    with pytest.raises(BadPolicy, match=r"own\.toml"):
        first()


def test_an_index_is_built_once_and_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    checks = engine_contract(Toy())
    assert list(place().iterdir()) == []
    checks[0]()
    checks[1]()
    assert len(list(place().iterdir())) == 1
    del checks
    gc.collect()
    assert list(place().iterdir()) == []


@pytest.mark.slow
def test_a_suite_elsewhere_runs_it(tmp_path: Path) -> None:
    suite = tmp_path / "test_own.py"
    suite.write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(suite)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert f"{len(CONTRACT_CHECKS)} passed" in done.stdout, done.stdout


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
    with LogWriter(folder, rotate_bytes=10**7, sync_ns=10**12) as log:
        last = max((one.number for one in observed), default=0)
        note = Degradation(last + lost, log.writer, START, "candidate", ProblemKind.TIMEOUT, "late")
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
    assert log.tally == ComparisonTally(attempted=85, compared=82, errored=1, skipped=0, shed=2)
    assert log.missing == 2
    said = repr(log)
    assert "attempted 85 = compared 82 + errored 1 + skipped 0 + shed 2; lost beside: 2" in said
    page = log._repr_html_()
    order = [
        "Request accounting",
        "How sure",
        "Alarms",
        "Attempts by class",
        "that diverge",
    ]
    assert sorted(order, key=page.index) == order
    assert "<bdi>82</bdi><small>96.5 %</small></td>" in page


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
    assert [str(one.trace.outcome) for one in log.worst(9).queries] == [
        "disjoint", "tie_order", "timeout",
    ]  # fmt: skip
    assert len(log.worst(1).queries) == 1
    said = log.worst(9)._repr_html_()
    order = ["ties", "down 1", "up 1", "slow", "gone", "was given up: late"]
    assert [word for word in order if word not in said] == []


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
    again = load(folder, accepted=suppressions)
    for log_, standing in ((again, SuppressionStatus.ACCEPTED), (log, SuppressionStatus.OPEN)):
        ties = [one for one in log_.worst(9).queries if one.trace.text == "ties"]
        assert [one.standing for one in ties] == [standing]


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
