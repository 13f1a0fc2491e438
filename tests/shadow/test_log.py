"""The log goes on where it stopped, after kill -9 too, and is read whole and once."""

import itertools
import os
import random
import signal
import time
from dataclasses import replace
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from harness.agreement import Class, ComparisonTally
from harness.core.engine import Answer, Hit
from harness.core.errors import BadFile, EvidenceError
from harness.core.records import Scalar
from harness.shadow import comparison as live_comparison
from harness.shadow import log as shadow_log
from harness.shadow.comparison import Shadowed
from harness.shadow.log import LogWriter, Stream
from harness.shadow.record import (
    DIVERGING,
    Degradation,
    Divergence,
    Observation,
    dumped,
    parsed,
    query_key,
)
from tests.make.shadow_log import LIMITS, changed, comparison, here
from tests.make.shadow_records import degradation, observation, side
from tests.make.shadow_records import reordered as divergence
from tests.shadow.arms import OTHER, Arm, given, hits


def numbers(folder: Path) -> list[int]:
    return [one.number for one in shadow_log.read_logs(folder).observations]


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(cut=st.integers(0, 3 * len(dumped(observation(3)))))
def test_a_torn_line_is_cut_off_and_nothing_before_it(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    with LogWriter(folder) as out:
        out.append([observation(n) for n in (1, 2, 3)], [], [])
    file = shadow_log.path(folder, Observation)
    whole = file.read_bytes()
    os.truncate(file, cut)
    with LogWriter(folder) as out:
        kept = file.read_bytes()
        assert whole.startswith(kept)
        assert kept.count(b"\n") == whole[:cut].count(b"\n")
        out.append([observation(out.number + 1)], [], [])
    assert numbers(folder) == list(range(1, whole[:cut].count(b"\n") + 2))


def test_a_copy_beside_a_stream_is_neither_read_nor_written(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as out:
        out.append([observation(1)], [], [])
    copy = tmp_path / "observations.000001.copy.jsonl"
    copy.write_bytes(shadow_log.path(tmp_path, Observation).read_bytes())
    with LogWriter(tmp_path) as out:
        out.append([observation(2)], [], [])
    assert numbers(tmp_path) == [1, 2]
    assert copy.read_bytes().count(b"\n") == 1


@pytest.mark.parametrize("kind", [Observation, Divergence, Degradation])
def test_no_number_that_any_stream_knows_is_given_again(tmp_path: Path, kind: type[object]) -> None:
    records = observation(7, served=70), divergence(7, served=70), degradation(7)
    own = [[one] if isinstance(one, kind) else [] for one in records]
    with LogWriter(tmp_path) as out:
        out.append([observation(1)], [], [])
        out.append(*own)  # type: ignore[arg-type]
    with LogWriter(tmp_path) as out:
        assert (out.number, out.served) == (7, 1 if kind is Degradation else 70)


def test_a_log_has_one_writer_who_keeps_its_name(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as first, pytest.raises(EvidenceError, match="another process writes"):
        LogWriter(tmp_path)
    with LogWriter(tmp_path) as second:
        assert second.writer == first.writer


def test_the_disk_is_waited_for_as_often_as_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[int] = []
    monkeypatch.setattr(os, "fsync", waited.append)
    monkeypatch.setattr(shadow_log, "SYNC_NS", 100)
    now = [0]
    out = LogWriter(tmp_path, clock=lambda: now[0])
    for number, at in enumerate((0, 99, 100, 150, 199, 200), start=1):
        now[0] = at
        before = len(waited)
        out.append([observation(number)], [], [])
        assert (len(waited) > before) == (at in {100, 200})
    before = len(waited)
    out.close()
    assert len(waited) - before == 3


def test_no_observation_is_written_before_its_divergence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(Stream, "append", lambda _, lines: written.append(lines))
    with LogWriter(tmp_path) as out:
        out.append([observation(1)], [divergence(1)], [degradation(1)])
    assert written == [dumped(divergence(1)), dumped(degradation(1)), dumped(observation(1))]


def test_what_was_written_is_read_in_the_order_of_the_attempts(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as out:
        out.append([observation(3), observation(1)], [divergence(3)], [degradation(1)])
        out.append([observation(2, Class.SHED)], [], [])
    found = shadow_log.read_logs(tmp_path)
    assert [one.number for one in found.observations] == [1, 2, 3]
    assert (found.divergences, found.degradations) == ((divergence(3),), (degradation(1),))
    assert found.tally == ComparisonTally(attempted=3, compared=2, errored=0, skipped=0, shed=1)
    assert found.missing == 0
    with LogWriter(tmp_path) as out:
        out.append([observation(4)], [divergence(4), divergence(5)], [])
    found = shadow_log.read_logs(tmp_path)
    assert [one.number for one in found.divergences] == [3, 4], "each has its observation"
    assert found.missing == 1


def test_logs_of_several_processes_are_one(tmp_path: Path) -> None:
    writers = []
    for at, name in enumerate(("a", "b", "c")):
        with LogWriter(tmp_path / name) as out:
            writers.append(out.writer)
            own = [observation(n, writer=out.writer, at=10 * n + at) for n in (1, 2)]
            diverged = [divergence(2, writer=out.writer, at=20 + at)] if at else []
            out.append(own, diverged, [])
    found = shadow_log.read_logs(tmp_path / "b", tmp_path / "c", tmp_path / "a")
    assert len(set(writers)) == 3
    assert [one.writer for one in found.observations] == writers * 2
    assert [one.writer for one in found.divergences] == writers[1:]
    assert found.tally.attempted == 6


def test_the_same_attempt_twice_is_refused(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "one") as out:
        out.append([observation(1), observation(1)], [], [])
    for names, says in ((("one", "one"), "one writer; give each log once"), (("one",), "twice")):
        with pytest.raises(EvidenceError, match=says):
            shadow_log.read_logs(*(tmp_path / name for name in names))


PATH = Path("shadow/observations.jsonl")
finite = st.floats(allow_nan=False, allow_infinity=False)
words = st.text(st.characters(exclude_categories=["Cs"]))


@hypothesis.given(
    text=words,
    hits=st.lists(st.tuples(words, finite, finite), max_size=4),
    params=st.dictionaries(words, st.none() | st.booleans() | st.integers() | finite | words),
)
def test_whatever_was_typed_and_shown_comes_back(
    text: str, hits: list[tuple[str, float, float]], params: dict[str, Scalar]
) -> None:
    shown = replace(side(""), hits=tuple(Hit(*hit) for hit in hits))
    wanted = divergence(text=text, params=params, candidate=shown)
    found = parsed(Divergence, dumped(wanted), PATH, 1)
    assert found == wanted
    assert [hit.doc_id for hit in found.candidate.hits] == [hit[0] for hit in hits]
    assert {k: type(v) for k, v in found.params.items()} == {k: type(v) for k, v in params.items()}


LINE = dumped(observation())


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (LINE.replace(b'"format":1', b'"format":2'), "does not start with"),
        (LINE[: len(LINE) // 2], "not a whole observation"),
        (LINE.replace(b'"number":1', b'"number":0'), "number: "),
        (LINE.replace(b'"answered"', b'"maybe"'), "'maybe' is not one of answered"),
        (LINE.replace(b'"jaccard":1.0', b'"jaccard":1.1'), "jaccard: "),
        (LINE.replace(b'"rbo":1.0', b'"rbo":NaN'), "NaN is not JSON"),
        (dumped(divergence()), "query: Field required"),
    ],
)
def test_a_line_that_is_no_record_is_named_by_file_and_line(line: bytes, problem: str) -> None:
    with pytest.raises(BadFile, match=problem) as caught:
        parsed(Observation, line, PATH, 7)
    assert str(caught.value).startswith(f"{PATH}:7: ")


def test_the_key_is_of_text_and_params() -> None:
    params: list[dict[str, Scalar]] = [{}, {"p": 1}, {"p": "1"}, {"p": True}]
    keys = {query_key("b", {}), *(query_key("a", each) for each in params)}
    assert len(keys) == 1 + len(params)
    assert query_key("a", {"p": 1, "q": 2}) == query_key("a", {"q": 2, "p": 1})


ROUNDS = 15
WITHIN_S = 0.03
"""A round is killed at a random moment of so long after its first record."""
AT_ONCE = 5
"""One round in so many is killed without waiting for a record."""


def live(folder: Path) -> None:
    """Serve for ever; the candidate shows another order, nothing, an error or the same."""

    def act(text: str, _: int) -> Answer:
        which = int(text) % 4
        if not which:
            raise ValueError(text)
        return Answer(hits(("", "ba", "ab")[which - 1]), OTHER.fingerprint)

    live_comparison.LINGER_S = 0.001
    made = comparison(folder, here(given(Arm(OTHER, act))), limits=changed(LIMITS, queue=20))
    shadowed = Shadowed(Arm(act=lambda *_: Arm().answer("ab")), made)
    parent = os.getppid()
    for number in itertools.count():
        shadowed.search(str(number), 10)
        if number % 40 == 0:
            time.sleep(0.002)
            if os.getppid() != parent:
                os._exit(1)


def written(folder: Path) -> int:
    """Count the bytes of all observations."""
    return sum(file.stat().st_size for file in shadow_log.files(folder, Observation))


def kill_rounds(folder: Path, test: Connection) -> None:
    """Run a round and kill it, each time that the test asks."""
    rng = random.Random(20_261_122)
    for number in range(ROUNDS):
        test.recv()
        before = written(folder)
        child = os.fork()
        if not child:
            live(folder)
        while number % AT_ONCE and written(folder) <= before:
            time.sleep(0.001)
        time.sleep(WITHIN_S * rng.random())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        test.send("killed")


def tear(folder: Path, rng: random.Random) -> None:
    """Leave a part of a line at the end of one stream, as a write that was cut would."""
    record = rng.choice((observation(99), divergence(99), degradation(99)))
    if files := shadow_log.files(folder, type(record)):
        line = dumped(record)
        with files[-1].open("ab") as file:
            file.write(line[: rng.randrange(len(line))])


@pytest.mark.slow
def test_a_killed_comparison_leaves_a_whole_log(tmp_path: Path) -> None:
    """It is forked by a process without threads, for this one has some."""
    before, seen = set[Observation](), set[int]()
    rng = random.Random(7)
    ours, theirs = Pipe()
    killer = get_context("spawn").Process(target=kill_rounds, args=(tmp_path, theirs))
    killer.start()
    for _ in range(ROUNDS):
        ours.send("go on")
        assert ours.recv() == "killed"
        if not shadow_log.files(tmp_path, Observation):
            continue
        now = shadow_log.read_logs(tmp_path)
        diverged = {one.number for one in now.observations if one.outcome in DIVERGING}
        assert {one.number for one in now.divergences} == diverged
        assert before <= {*now.observations}
        assert seen <= diverged
        assert now.tally.attempted == len({one.number for one in now.observations})
        before, seen = {*now.observations}, diverged
        tear(tmp_path, rng)
    killer.join()
    assert killer.exitcode == 0
    outcomes = {one.outcome for one in before}
    assert {Class.EXACT, Class.REORDER, Class.SHADOW_EMPTY, Class.ERROR, Class.SHED} <= outcomes
    with LogWriter(tmp_path) as log:
        assert log.number >= max(one.number for one in before)
    assert {*shadow_log.read_logs(tmp_path).observations} == before
