"""Whatever a candidate says: nothing of it is run, and who asks goes on."""

import os
import pickle
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from harness.core.engine import Answer, Hit, Searcher
from harness.core.run import Status
from harness.shadow import worker
from harness.shadow.pair import Generation
from harness.shadow.record import ProblemKind
from harness.shadow.worker import Garbage, Open, ProcessWorker, WorkerLost, frame_of, heard
from tests.make.shadow_log import LIMITS, MS, SECOND, Here, changed
from tests.shadow.arms import OTHER, Arm, Plain, arm, broken, given, hits, slow_to_open

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("anew")]


class Runs:
    """What runs a command where it is unpickled."""

    def __init__(self, makes: str) -> None:
        self.makes = makes

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.makes,)


def frame(body: bytes, size: int | None = None) -> bytes:
    return struct.pack("!i", len(body) if size is None else size) + body


def written(how: str, makes: Path) -> bytes:
    """Give the bytes that a candidate writes."""
    return {
        "a pickle": frame(pickle.dumps(Runs(str(makes)))),
        "half a frame": frame(b"x", 100),
        "two frames": frame(b'{"number": 0}') * 2,
    }[how]


@contextmanager
def babbling(how: str, makes: Path) -> Iterator[Searcher]:
    """Write into every socket that the process has: one of them leads to who asks."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  names of numbers
        try:
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                os.write(int(name), written(how, makes))
        except OSError:
            continue
    yield Plain()


@pytest.mark.parametrize("how", ["a pickle", "half a frame", "two frames"])
def test_what_a_candidate_babbles_loses_it_and_runs_nothing(tmp_path: Path, how: str) -> None:
    made = tmp_path / "made"
    limits = changed(LIMITS, start_s=6.0 if how == "half a frame" else 60.0)
    with pytest.raises(WorkerLost, match="it did not open") as lost:
        ProcessWorker(partial(babbling, how, made), limits)
    assert lost.value.kind is ProblemKind.CRASH
    assert not made.exists()


def test_a_pickle_is_no_message_and_is_not_run(tmp_path: Path) -> None:
    """Behind a candidate's process it may be refused for what follows it alone."""
    with pytest.raises(Garbage):
        heard(pickle.dumps(Runs(str(tmp_path / "made"))))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b'{"number": 0, "number": 0}', id="a key twice"),
        pytest.param(b'{"number": 1, "side": {"status": "answered"}}', id="JSON of no kind"),
        pytest.param(b"[" * 100_000, id="a deep list"),
        pytest.param(b"\xff{}", id="no text"),
    ],
)
def test_what_is_no_message_is_refused(frame: bytes) -> None:
    with pytest.raises(Garbage):
        heard(frame)


def read(*pieces: bytes) -> bytes:
    """Read a frame from a pipe into which the pieces are written one by one."""
    left = list(pieces)
    out, into = os.pipe()

    def ready() -> None:
        if left:
            os.write(into, left.pop(0))
        else:
            raise TimeoutError

    try:
        return frame_of(out, ready)
    finally:
        os.close(out)
        os.close(into)


@pytest.mark.parametrize(
    ("pieces", "error", "says"),
    [
        ([], TimeoutError, None),
        ([b"\x00"], TimeoutError, None),
        ([frame(b"ab", 3)], TimeoutError, None),
        ([frame(b"x", -1)], Garbage, "bytes; at most"),
        ([frame(b"x", worker.MAX_ANSWER_BYTES + 1)], Garbage, "bytes; at most"),
        ([frame(b"x", (1 << 31) - 1)], Garbage, "bytes; at most"),
        ([frame(b"a") + frame(b"b")], Garbage, "more than was requested"),
    ],
)
def test_a_frame_ends_in_time_has_a_length_that_can_be_and_nothing_behind_it(
    pieces: list[bytes], error: type[Exception], says: str | None
) -> None:
    whole = frame(b"abc")
    assert read(*(whole[at : at + 1] for at in range(len(whole)))) == b"abc"
    with pytest.raises(error, match=says):
        read(*pieces)


PATIENT = {"late_ns": 20 * SECOND, "hang_ns": 20 * SECOND}


def process(opens: Open, start_s: float = 30.0) -> ProcessWorker:
    return ProcessWorker(opens, changed(LIMITS, start_s=start_s))


def children() -> list[psutil.Process]:
    """Candidates of this process that still run."""
    return [one for one in psutil.Process().children() if "spawn_main" in str(one.cmdline())]


def test_a_worker_answers_with_who_it_is_and_what_it_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    made = process(arm())
    side = made.ask(("abc", 2, {}), **PATIENT)
    assert (side.status, side.hits) == (Status.ANSWERED, hits("ab"))
    assert side.served_by == OTHER.fingerprint
    assert side.before == side.after == f"{OTHER.fingerprint[:16]}:0"
    assert side.elapsed_ns is not None
    assert 0 < side.elapsed_ns < 20 * SECOND
    raised = made.ask(("abc", 2, {}), late_ns=0, hang_ns=20 * SECOND)
    assert raised.status is Status.TIMED_OUT
    monkeypatch.setattr(worker, "heard", lambda frame: replace(heard(frame), number=1))
    with pytest.raises(WorkerLost, match="an answer to another query"):
        made.ask(("abc", 2, {}), **PATIENT)
    made.close()


@pytest.mark.parametrize(
    ("how", "kind", "cause"),
    [
        ("hang", ProblemKind.TIMEOUT, "no answer"),
        ("exit", ProblemKind.CRASH, "exit code 7"),
        ("crash", ProblemKind.CRASH, "exit code -11"),
        ("leak", ProblemKind.CRASH, "grew to"),
    ],
)
def test_a_process_that_hangs_ends_or_leaks_is_lost_and_gone(
    how: str, kind: ProblemKind, cause: str
) -> None:
    worker = process(arm(how))
    assert worker.ask(("ab", 2, {}), **PATIENT).status is Status.ANSWERED
    hang_ns = 200 * MS if how == "hang" else 60 * SECOND
    with pytest.raises(WorkerLost, match=cause) as lost:
        worker.ask((how, 2, {}), late_ns=hang_ns, hang_ns=hang_ns)
    assert lost.value.kind is kind
    assert lost.value.side is not None
    assert lost.value.side.status is (Status.TIMED_OUT if how == "hang" else Status.FAILED)
    worker.close()
    assert not children()


@pytest.mark.parametrize(
    ("opens", "says"),
    [
        (broken, "did not open: RuntimeError: there is no index"),
        (slow_to_open, "did not open: no answer after"),
        (given(Arm()), "did not start"),
    ],
)
def test_a_candidate_that_does_not_open_soon_is_lost(opens: Open, says: str) -> None:
    with pytest.raises(WorkerLost, match=says) as lost:
        process(opens, start_s=0.3 if opens is slow_to_open else 30)
    assert lost.value.side is None or opens is slow_to_open
    assert not children()


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        Answer((Hit("a", float("nan"), 1.0),), "x"),
        Answer(hits("abcde"), "x"),
        Answer((("a", 1.0, 1.0),), "x"),  # type: ignore[arg-type]
    ],
)
def test_garbage_is_a_failure_and_no_empty_answer(garbage: Answer) -> None:
    worker = Here(given(Arm(act=lambda *_: garbage)))
    side = worker.ask(("ab", 2, {}), **PATIENT)
    assert (side.status, side.hits) == (Status.FAILED, ())
    assert side.error
    worker.close()


def test_params_reach_a_candidate_that_takes_them_and_its_note_comes_back() -> None:
    taking = Arm(act=lambda *_: Answer(hits("a"), OTHER.fingerprint, "as a prefix"))
    worker = Here(given(taking))
    assert worker.ask(("ab", 2, {"limit": 3}), **PATIENT).note == "as a prefix"
    assert taking.asked == [("ab", 2, {"limit": 3})]
    worker.close()
    plain = Here(given(Plain()))
    side = plain.ask(("ab", 2, {"limit": 3}), **PATIENT)
    assert (side.hits, side.note) == (hits("ab"), "")
    plain.close()


def test_a_generation_moves_with_the_manifest_and_with_the_number() -> None:
    moving, still = Arm(), Plain()
    generation = Generation(moving)
    first = generation()
    moving.generation += 1
    second = generation()
    moving.manifest = OTHER
    assert len({first, second, generation()}) == 3
    assert Generation(still)() == OTHER.fingerprint[:16]
