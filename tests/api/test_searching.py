"""Search functions interleaved, engines checked, and logs of a live comparison."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random

import pytest

from harness import Interleaver, load_clicks, load_shadow_log
from harness.agreement import Class, ComparisonTally
from harness.api.data import ranking_by
from harness.check.checks import EngineCheck, engine_contract
from harness.clicks.credit import read, team_draft
from harness.core.engine import Answer
from harness.core.errors import EvidenceError, RunError
from harness.core.run import Status
from harness.migrate import ledger as moves
from harness.migrate.ledger import interleave
from harness.policy.load import load_policy
from harness.shadow.api import Watched
from harness.shadow.log import LogWriter
from harness.shadow.record import Degradation, Observation, ProblemKind
from tests.docs.pages import ROOT
from tests.make.arms import Toy, ToySearcher, keeps
from tests.make.shadow_records import START, WATCH, attempt, seen, shed


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("d1", "candidate: gives a str. Return document ids"),
        (None, "gives a NoneType. Return"),
        ([3], "gives a list of int. Return"),
        ([("d1", 1.0, "x")], "gives a list of tuple. Return"),
        ([("d1", "high")], "the score 'high' of d1 is not a finite number"),
        ([("d1", float("nan"))], "the score nan of d1 is not a finite number"),
        ({"d1": float("inf")}, "the score inf of d1 is not a finite number"),
        ([("b", 0.5), ("a", 2)], "candidate: rank 2 scores 2, more than the rank before it. Sort"),
    ],
)
def test_what_is_no_ranking_is_named(given: object, said: str) -> None:
    with pytest.raises(RunError, match=said):
        ranking_by(lambda _: given, "x", "candidate")  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        (["b", "a", "b"], ("b", "a")),
        ([("a", 2), ("c", 1.0), ("b", 1.0)], ("a", "c", "b")),
        ({"b": 1.0, "a": 2.0}, ("a", "b")),
        ([], ()),
    ],
)
def test_every_form_of_a_ranking_is_read_best_first(given: object, ids: tuple[str, ...]) -> None:
    assert ranking_by(lambda _: given, "x", "candidate") == ids  # type: ignore[arg-type,return-value]


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
    one = found.candidates["new"]
    assert one.losses == 0
    assert one.wins > 30
    assert one.estimate.low > 0
    assert found.users == 100
    assert "new against old: +" in str(found)
    kept = read(tmp_path / "log").shown[0]
    mixed = team_draft(["abc", "cda"], 3, Random(f"1 {kept.id}"))
    assert (*mixed.items(),) == (*zip(kept.documents, kept.teams, strict=True),)


def scoreless(_: str) -> dict[str, float]:
    return {"a": float("nan")}


@pytest.mark.parametrize("candidate", [broken, shapeless, scoreless])
def test_a_candidate_that_fails_costs_no_user_a_list(
    tmp_path: Path, on: Path, candidate: object
) -> None:
    both = Interleaver(
        {"old": old, "new": candidate},  # type: ignore[dict-item]
        log=tmp_path / "log", ledger=on, seed=1,
    )  # fmt: skip
    shown = both.search("red", 2)
    assert shown.documents == ("a", "b")
    said: dict[object, str] = {broken: "TimeoutError: the new one hangs", shapeless: "gives a int"}
    assert shown.failed.startswith(f"new: {said.get(candidate, 'run[')}")
    at = re.search(r" \(test_searching\.py:\d+\)$", shown.failed)
    assert bool(at) == (candidate is broken)


OWN = ROOT / "examples" / "own_engine" / "own.toml"


def served_by_another(searcher: ToySearcher, text: str, k: int) -> Answer:
    return replace(keeps(searcher, text, k), served_by="x")


@pytest.mark.parametrize("check", engine_contract(OWN), ids=str)
def test_the_example_keeps_the_contract(check: EngineCheck) -> None:
    check()


def test_a_broken_promise_fails_with_what_to_do() -> None:
    checks = {str(check): check for check in engine_contract(Toy(served_by_another))}
    checks["ties"]()
    with pytest.raises(AssertionError, match=r"(?s)identity: broken.*To fix: Give self\.manifest"):
        checks["identity"]()


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


def written(folder: Path, observed: list[Observation], lost: int = 0) -> Path:
    """Write a log; ``lost`` attempts at its end are known by a degradation alone."""
    with LogWriter(folder) as log:
        last = max((one.number for one in observed), default=0)
        note = Degradation(last + lost, log.writer, START, "candidate", ProblemKind.TIMEOUT, "late")
        log.append([replace(one, writer=log.writer) for one in observed], [], [note])
    return folder


def load(*folders: Path) -> Watched:
    return load_shadow_log(*folders, bounds=WATCH, today=date(2026, 11, 22))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return load(written(tmp_path_factory.mktemp("log"), OBSERVED, lost=2))


def test_the_denominators_add_up_and_come_first(log: Watched) -> None:
    assert log.tally == ComparisonTally(attempted=85, compared=82, errored=1, skipped=0, shed=2)
    assert log.missing == 2
    said = repr(log)
    assert "attempted 85 = compared 82 + errored 1 + skipped 0 + shed 2; lost beside: 2" in said
    page = log._repr_html_()
    order = ["Request accounting", "How sure", "Alarms", "Attempts by class", "that diverge"]
    assert sorted(order, key=page.index) == order
    assert "<bdi>82</bdi><small>96.5 %</small></td>" in page


def test_estimates_are_confidence_sequences_over_their_own_pairs(log: Watched) -> None:
    overlap, failures, ratio = (log.estimates[name] for name in ("overlap", "failures", "ratio"))
    assert overlap
    assert failures
    assert ratio
    assert (overlap.value, overlap.n) == (81 / 82, 82)
    assert overlap.low < 81 / 82 < overlap.high <= 1
    assert (failures.value, failures.n) == (1 / 83, 83)
    assert ratio.low <= 2.5 <= ratio.high
    assert ratio.n == 83


def test_two_logs_are_read_as_one_and_one_log_not_as_two(tmp_path: Path) -> None:
    first = written(tmp_path / "a", OBSERVED)
    later = written(tmp_path / "b", [replace(one, at=one.at + 1) for one in OBSERVED])
    assert load(first, later).tally.attempted == 170
    with pytest.raises(EvidenceError, match="give each log once"):
        load(first, first)
