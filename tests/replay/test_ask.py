"""An arm is asked: one query, a set in parts that outlive a kill, and in stages."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.engine import Answer, Hit, Manifest, Stage
from harness.core.errors import InvalidArm
from harness.core.records import Query, Scalar
from harness.core.run import Conditions, Row, Run, Status
from harness.corpus.runs import read_run, write_run
from harness.replay import drive
from harness.replay.drive import BrokenAnswer, TimedOutcome, copied, observe, trace
from tests.make.arms import Table, hits, queries, raising

QUERY = Query("q1", "what?")
MINUTE_NS = 60_000_000_000


def watch(answer: Callable[[], object], k: int = 3, limit_ns: int = MINUTE_NS) -> TimedOutcome:
    return observe(Table(answers={"what?": answer}), QUERY, k, limit_ns)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Make the clock read these times, one after another."""
    times: list[int] = []
    monkeypatch.setattr(drive, "perf_counter_ns", lambda: times.pop(0))
    return times


def test_an_answer_is_kept_as_it_was_given() -> None:
    arm = Table(answers={"what?": lambda: Table().shows("a", "b")})
    row = observe(arm, QUERY, 3, MINUTE_NS).row
    assert (row.query_id, row.status, row.hits) == ("q1", Status.ANSWERED, hits("a", "b"))
    assert row.served_by == arm.manifest.fingerprint
    assert row.error == ""
    assert arm.diary == [("table", "what?", 3)]
    assert watch(lambda: Answer(hits("a"), "somebody else")).row.served_by == "somebody else"
    row = watch(lambda: Table().shows()).row
    assert (row.status, row.hits, row.error) == (Status.ANSWERED, (), "")


class Filtering(Table):
    """An arm that understands params."""

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        return self.shows(f"{text} {dict(params)} {k}")


def test_params_are_handed_on_to_an_arm_that_takes_them_and_to_no_other() -> None:
    filtered = replace(QUERY, params={"project": 3})
    row = observe(Filtering(), filtered, 5, MINUTE_NS).row
    assert row.hits == hits("what? {'project': 3} 5")
    assert observe(Table(), filtered, 5, MINUTE_NS).row.hits == hits("about what?")
    assert observe(Filtering(), QUERY, 5, MINUTE_NS).row.hits == hits("about what?")


class Panic(BaseException):
    """Stands for what a Rust engine raises when it panics."""


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad query"), "ValueError: bad query"),
        (Panic("index out of bounds"), "Panic: index out of bounds"),
        (MemoryError(), "MemoryError: "),
        (RecursionError("deep"), "RecursionError: deep"),
        (KeyError("a"), "KeyError: 'a'"),
        (ValueError("half \ud800"), "ValueError: half \\ud800"),
    ],
)
def test_an_exception_is_a_failure_with_its_text(
    error: BaseException, text: str, tmp_path: Path
) -> None:
    row = watch(raising(error)).row
    assert (row.status, row.hits, row.served_by, row.error) == (Status.FAILED, (), "", text)
    write_run(Run.of("arm", [row]), tmp_path / "run")
    assert next(read_run(tmp_path / "run").rows()).error == text


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_a_person_who_stops_is_obeyed(error: BaseException) -> None:
    with pytest.raises(type(error)):
        watch(raising(error))


@pytest.mark.parametrize(
    ("elapsed_ns", "status"),
    [(999, Status.ANSWERED), (1000, Status.ANSWERED), (1001, Status.TIMED_OUT)],
)
def test_a_late_answer_is_a_timeout(clock: list[int], elapsed_ns: int, status: Status) -> None:
    clock[:] = [5_000, 5_000 + elapsed_ns]
    seen = watch(lambda: Table().shows("a"), limit_ns=1000)
    assert (seen.row.status, seen.elapsed_ns) == (status, elapsed_ns)
    late = status is Status.TIMED_OUT
    assert bool(seen.row.hits) is not late
    assert bool(seen.row.error) is late
    assert bool(seen.row.served_by) is not late


class Late(str):
    """An id that says when it is made."""

    __slots__ = ()


class LateHit(Hit):
    """A hit that is looked up when it is read."""

    diary: list[str]

    @property
    def doc_id(self) -> str:
        self.diary.append("looked up")
        return Late("b")


class LateHits(tuple[Hit, ...]):
    """Hits that are searched for when they are read, which need not end."""

    __slots__ = ()
    diary: list[str]

    def __iter__(self) -> Iterator[Hit]:
        self.diary.append("searched")
        yield from (LateHit("", np.float64(0.5), 1), *hits("c"))

    def __len__(self) -> int:
        return 2


def test_what_works_when_it_is_read_is_read_while_the_clock_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    diary: list[str] = []
    LateHits.diary = LateHit.diary = diary

    def tick() -> int:
        diary.append("clock")
        return len(diary)

    monkeypatch.setattr(drive, "perf_counter_ns", tick)
    row = watch(lambda: Answer(LateHits(), Late("me"))).row
    assert (diary[0], diary[1], diary[-1]) == ("clock", "searched", "clock")
    assert diary.count("clock") == 2
    assert row.hits == (Hit("b", 0.5, 1.0), *hits("c"))
    assert {type(row.hits), type(row.hits[0])} == {tuple, Hit}
    assert {type(row.hits[0].doc_id), type(row.served_by)} == {str}
    assert {type(score) for score in row.hits[0][1:]} == {float}


def test_hits_of_its_own_kind_that_never_end_are_read_to_the_depth_and_no_further() -> None:
    class Endless(LateHits):
        __slots__ = ()

        def __iter__(self) -> Iterator[Hit]:
            while True:
                yield Hit("a", 1.0, 1.0)

    row = watch(lambda: Answer(Endless(), "me")).row
    assert (row.status, row.error) == (Status.FAILED, "4 hits were shown, 3 were requested")


def generator() -> Iterator[Hit]:
    yield Hit("a", 1.0, 1.0)


BAD = [
    Answer((Hit("a", 1.0, 1.0), Hit("b", math.nan, 1.0)), "me"),
    Answer((Hit("a", 1.0, math.inf),), "me"),
    Answer((Hit("a", -math.inf, 1.0),), "me"),
    Answer(hits("a", "b", "c", "d"), "me"),
    Answer(hits("a", "a", "a", "a"), "me"),
    Answer((Hit("a", None, 1.0),), "me"),  # type: ignore[arg-type]
    Answer((Hit(7, 1.0, 1.0),), "me"),  # type: ignore[arg-type]
    Answer((("a", 1.0, 1.0),), "me"),  # type: ignore[arg-type]
    Answer([Hit("a", 1.0, 1.0)], "me"),  # type: ignore[arg-type]
    Answer(generator(), "me"),  # type: ignore[arg-type]
    Answer(hits("a"), None),  # type: ignore[arg-type]
    None,
    [],
    ["a", "b"],
]


@pytest.mark.parametrize("answer", BAD)
def test_what_breaks_the_contract_is_a_failure_with_a_reason(answer: object) -> None:
    row = watch(lambda: answer).row
    assert (row.status, row.hits) == (Status.FAILED, ())
    with pytest.raises(BrokenAnswer) as broken:
        copied(answer, 3)
    assert row.error == str(broken.value) != ""


QUERIES = (Query("q1", "ab"), Query("q2", "ba"), Query("q3", "cab"))
Lists = Callable[[str], tuple[Stage, ...]]


def hits_staged(docs: str) -> tuple[Hit, ...]:
    return tuple(Hit(doc, 1.0, 1.0) for doc in docs)


def in_stages(text: str) -> tuple[Stage, ...]:
    """Words give the letters in order, vectors backwards, and the answer is what was typed."""
    words = "".join(sorted(text))
    return (
        Stage("lexical", hits_staged(words)),
        Stage("semantic", hits_staged(words[::-1]), beside=True),
        Stage("fused", hits_staged(text)),
    )


@dataclass(frozen=True)
class Arm:
    """Shows the letters of a text."""

    lists: Lists = in_stages
    asked: list[tuple[str, int, Mapping[str, Scalar]]] = field(default_factory=list)
    manifest: Manifest = field(default=Manifest("toy", "1", 3, "c", "s"))

    def search(self, text: str, k: int) -> Answer:
        return Answer(hits_staged(text)[:k], self.manifest.fingerprint)

    def stages(self, text: str, k: int, params: Mapping[str, Scalar]) -> tuple[Stage, ...]:
        self.asked.append((text, k, params))
        return self.lists(text)


def shown(asked: Sequence[Query] = QUERIES) -> Run:
    rows = (Row(q.query_id, Status.ANSWERED, hits_staged(q.text)) for q in asked)
    return Run.of("toy", rows)


def test_the_way_and_what_stands_beside_it() -> None:
    arm = Arm()
    steps: list[int] = []
    traced = trace(arm, QUERIES, shown(), k=7, advance=steps.append)
    assert [run.arm for run in traced.way] == ["lexical", "fused"]
    assert [run.ranking("q3") for run in traced.way] == [tuple("abc"), tuple("cab")]
    assert [(run.arm, run.ranking("q3")) for run in traced.beside] == [("semantic", tuple("cba"))]
    assert traced.lost == {}
    assert steps == [1, 1, 1]
    assert arm.asked == [(q.text, 7, q.params) for q in QUERIES]


def test_queries_that_fail_or_go_another_way_are_lost_and_say_why() -> None:
    def lists(text: str) -> tuple[Stage, ...]:
        if text == "ba":
            raise RuntimeError("no model")
        return in_stages(text)[2:] if text == "cab" else in_stages(text)

    more = (*QUERIES, Query("q4", "bc"))
    traced = trace(Arm(lists), more, shown(more), k=7, advance=lambda _: None)
    assert traced.lost == {"q2": "RuntimeError: no model", "q3": "went through fused"}
    assert {run.query_ids for run in (*traced.way, *traced.beside)} == {("q1", "q4")}


def test_stages_that_lead_elsewhere_are_refused() -> None:
    def other(text: str) -> tuple[Stage, ...]:
        return in_stages("ab" if text == "ba" else text)

    with pytest.raises(InvalidArm, match="toy: query q2: its stage fused is not what it showed"):
        trace(Arm(other), QUERIES, shown(), k=7, advance=lambda _: None)


TEN = queries(10)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "PART", 4)


def replay(arm: Table, parts: Path, **changed: Any) -> Run:  # noqa: ANN401  settings of any type
    usual: dict[str, Any] = {"k": 3, "time_limit_s": 60.0, "seed": 7, "code_sha256": "c0de"}
    given = usual | changed
    return drive.drive(arm.name, arm, TEN, parts=parts, advance=lambda _: None, **given)


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
        runs.append([*replay(arm, tmp_path / str(at), seed=seed).rows()])
        orders.append(arm.asked())
    assert orders[0] == orders[1]
    assert orders[0] not in (orders[2], [query.text for query in TEN])
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.parametrize("dies_at", [0, 3, 4, 5, 8, 9])
def test_after_a_kill_only_the_rest_is_asked(tmp_path: Path, dies_at: int) -> None:
    whole = Table()
    expected = [*replay(whole, tmp_path / "whole").rows()]
    order = list(whole.asked())
    dying = Table(answers={order[dies_at]: raising(KeyboardInterrupt())})
    with pytest.raises(KeyboardInterrupt):
        replay(dying, tmp_path / "parts")
    assert dying.asked() == order[: dies_at + 1]
    finished = dies_at // 4
    assert len(list((tmp_path / "parts").glob("*"))) == finished
    resumed = Table()
    assert [*replay(resumed, tmp_path / "parts").rows()] == expected
    assert resumed.asked() == order[4 * finished :]


class Rebuilt(Table):
    """Another build of the same arm."""

    @property
    def manifest(self) -> Manifest:
        return replace(super().manifest, corpus_sha256="0ther")


@pytest.mark.parametrize(
    "changed",
    [{"code_sha256": "other"}, {"k": 2}, {"time_limit_s": 1.0}, {"seed": 8}, {}],
    ids=lambda changed: next(iter(changed), "build"),
)
def test_whatever_a_part_depends_on_asks_again(tmp_path: Path, changed: dict[str, Any]) -> None:
    replay(Table(), tmp_path)
    again = Table() if changed else Rebuilt()
    found = replay(again, tmp_path, **changed)
    assert len(again.diary) == 10
    assert {row.served_by for row in found.rows()} == {again.manifest.fingerprint}


def test_a_run_says_under_which_conditions_it_was_asked(tmp_path: Path) -> None:
    assert replay(Table(), tmp_path, k=2, time_limit_s=3.0).conditions == Conditions(2, 3.0)
