"""Whatever a candidate says: nothing of it is run, and who asks goes on."""

import os
import pickle
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

from harness.core.engine import Answer, Searcher
from harness.core.run import Status
from harness.shadow import worker
from harness.shadow.pair import generation_of, unanswered
from harness.shadow.worker import REPLY, Open, ProcessWorker, WorkerLost, heard
from tests.make.shadow_log import LIMITS, MS, SECOND, Here
from tests.shadow.arms import OTHER, Arm, Plain, arm, broken, given, hits, slow_to_open

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("anew")]


OPEN = unanswered(Status.NOT_ASKED, "")


class Runs:
    """What runs a command where it is unpickled."""

    def __init__(self, makes: str) -> None:
        self.makes = makes

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.makes,)


def written(how: str, makes: Path) -> bytes:
    """Return the bytes that a candidate writes."""
    return {
        "a pickle": pickle.dumps(Runs(str(makes))) + b"\n",
        "half a line": b'[0, {"status": "answered',
        "two lines": b"[0]\n" * 2,
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


@pytest.mark.parametrize("how", ["a pickle", "half a line", "two lines"])
def test_what_a_candidate_babbles_loses_it_and_runs_nothing(tmp_path: Path, how: str) -> None:
    made = tmp_path / "made"
    with pytest.raises(WorkerLost, match="it did not open: its answer is invalid"):
        ProcessWorker(partial(babbling, how, made), LIMITS)
    assert not made.exists()


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b'[0, {"status": 1}]', id="JSON of no kind"),
        pytest.param(REPLY.dump_json((1, OPEN)).replace(b'"note"', b'"note":"","note"'),
                     id="a key twice"),
        pytest.param(b"[" * 100_000, id="a deep list"),
        pytest.param(b"\xff{}", id="no text"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(line: bytes) -> None:
    assert heard(REPLY.dump_json((1, OPEN))) == (1, OPEN)
    with pytest.raises(ValueError, match=r"\w"):
        heard(line)


def test_a_pickle_is_no_message_and_is_not_run(tmp_path: Path) -> None:
    """Behind a candidate's process it may be refused for what follows it alone."""
    with pytest.raises(UnicodeDecodeError):
        heard(pickle.dumps(Runs(str(tmp_path / "made"))))
    assert not (tmp_path / "made").exists()


def test_an_answer_without_an_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_ANSWER_BYTES", 10)
    with pytest.raises(WorkerLost, match="its answer has over 10 bytes"):
        process(arm())


PATIENT = {"late_ns": 20 * SECOND, "hang_ns": 20 * SECOND}


def process(opens: Open) -> ProcessWorker:
    return ProcessWorker(opens, LIMITS)


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
    monkeypatch.setattr(worker, "heard", lambda line: (1, heard(line)[1]))
    with pytest.raises(WorkerLost, match="an answer to another query"):
        made.ask(("abc", 2, {}), **PATIENT)
    made.close()


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ("hang", "no answer"), ("exit", "exit code 7"), ("crash", "exit code -11"),
        ("leak", "grew to"),
    ],
)  # fmt: skip
def test_a_process_that_hangs_ends_or_leaks_is_lost_and_gone(how: str, cause: str) -> None:
    worker = process(arm(how))
    assert worker.ask(("ab", 2, {}), **PATIENT).status is Status.ANSWERED
    hang_ns = 200 * MS if how == "hang" else 60 * SECOND
    with pytest.raises(WorkerLost, match=cause) as lost:
        worker.ask((how, 2, {}), late_ns=hang_ns, hang_ns=hang_ns)
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
def test_a_candidate_that_does_not_open_soon_is_lost(
    opens: Open, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "START_S", 0.3 if opens is slow_to_open else 30)
    with pytest.raises(WorkerLost, match=says) as lost:
        process(opens)
    assert lost.value.side is None or opens is slow_to_open
    assert not children()


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
    first = generation_of(moving)
    moving.generation += 1
    second = generation_of(moving)
    moving.manifest = OTHER
    assert len({first, second, generation_of(moving)}) == 3
    assert generation_of(still) == OTHER.fingerprint[:16]
