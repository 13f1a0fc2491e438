"""Whatever a candidate says: nothing of it is run, and who asks goes on."""

import pickle
from functools import partial
from pathlib import Path

import psutil
import pytest

from harness.core.engine import Answer
from harness.core.run import Status
from harness.shadow import worker
from harness.shadow.pair import generation_of, unanswered
from harness.shadow.worker import REPLY, Open, ProcessWorker, WorkerLost, heard
from tests.make.shadow_log import LIMITS, MS, SECOND, Here
from tests.shadow import arms
from tests.shadow.arms import BABBLE, OTHER, Arm, Plain, arm, given, hits

pytestmark = pytest.mark.slow
OPEN = unanswered(Status.NOT_ASKED, "")


@pytest.mark.parametrize("how", BABBLE)
def test_what_a_candidate_babbles_loses_it_and_runs_nothing(tmp_path: Path, how: str) -> None:
    with pytest.raises(WorkerLost, match="it did not open: its answer is invalid"):
        process(partial(arms.babbling, how, tmp_path / "made"))
    assert not (tmp_path / "made").exists()


MESSAGE = REPLY.dump_json((1, OPEN))
NO_MESSAGES = {
    "JSON of no kind": b'[0, {"status": 1}]',
    "a key twice": MESSAGE.replace(b'"note"', b'"note":"","note"'),
    "a deep list": b"[" * 100_000,
    "no text": b"\xff{}",
}


@pytest.mark.parametrize("line", NO_MESSAGES.values(), ids=NO_MESSAGES)
def test_what_is_no_message_is_refused(line: bytes) -> None:
    assert heard(MESSAGE) == (1, OPEN)
    with pytest.raises(ValueError, match=r"\w"):
        heard(line)


def test_a_pickle_is_no_message_and_is_not_run(tmp_path: Path) -> None:
    """Behind a candidate's process it may be refused for what follows it alone."""
    with pytest.raises(UnicodeDecodeError):
        heard(pickle.dumps(arms.Runs(str(tmp_path / "made"))))
    assert not (tmp_path / "made").exists()


def test_an_answer_without_an_end_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_ANSWER_BYTES", 10)
    with pytest.raises(WorkerLost, match="its answer has over 10 bytes"):
        process(arm())


PATIENT = {"late_ns": 20 * SECOND, "hang_ns": 20 * SECOND}


def process(opens: Open) -> ProcessWorker:
    return ProcessWorker(opens, LIMITS)


def children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


@pytest.fixture
def before() -> set[psutil.Process]:
    """Return what runs beside a candidate: what forks it, where that is not this process."""
    process(arm()).close()
    return children()


def test_a_worker_answers_with_who_it_is_and_what_it_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    made = process(arm())
    side = made.ask(("abc", 2, {}), **PATIENT)
    assert (side.status, side.hits) == (Status.ANSWERED, hits("ab"))
    assert side.served_by == OTHER.fingerprint
    assert side.before == side.after == f"{OTHER.fingerprint[:16]}:0"
    assert 0 < (side.elapsed_ns or 0) < 20 * SECOND
    raised = made.ask(("abc", 2, {}), late_ns=0, hang_ns=20 * SECOND)
    assert raised.status is Status.TIMED_OUT
    monkeypatch.setattr(worker, "heard", lambda line: (1, heard(line)[1]))
    with pytest.raises(WorkerLost, match="an answer to another query"):
        made.ask(("abc", 2, {}), **PATIENT)
    made.close()


@pytest.mark.parametrize(
    ("how", "cause"),
    [("hang", "no answer"), ("exit", "exit code 7"), ("crash", "exit code -11"),
     ("leak", "grew to")],
)  # fmt: skip
def test_a_process_that_hangs_ends_or_leaks_is_lost_and_gone(
    how: str, cause: str, before: set[psutil.Process]
) -> None:
    worker = process(arm(how))
    assert worker.ask(("ab", 2, {}), **PATIENT).status is Status.ANSWERED
    hang_ns = 200 * MS if how == "hang" else 60 * SECOND
    with pytest.raises(WorkerLost, match=cause) as lost:
        worker.ask((how, 2, {}), late_ns=hang_ns, hang_ns=hang_ns)
    assert lost.value.side is not None
    assert lost.value.side.status is (Status.TIMED_OUT if how == "hang" else Status.FAILED)
    assert children() > before or how in {"exit", "crash"}
    worker.close()
    assert children() == before


@pytest.mark.parametrize(
    ("opens", "says"),
    [(arms.broken, "did not open: RuntimeError: there is no index"),
     (arms.slow_to_open, "did not open: no answer after"), (given(Arm()), "did not start")],
)  # fmt: skip
def test_a_candidate_that_does_not_open_soon_is_lost(
    opens: Open, says: str, monkeypatch: pytest.MonkeyPatch, before: set[psutil.Process]
) -> None:
    monkeypatch.setattr(worker, "START_S", 0.3 if opens is arms.slow_to_open else 30)
    with pytest.raises(WorkerLost, match=says) as lost:
        process(opens)
    assert lost.value.side is None
    assert children() == before


def test_params_reach_a_candidate_that_takes_them_and_its_note_comes_back() -> None:
    taking = Arm(act=lambda *_: Answer(hits("a"), OTHER.fingerprint, "as a prefix"))
    asking, plain = Here(given(taking)), Here(given(Plain()))
    assert asking.ask(("ab", 2, {"limit": 3}), **PATIENT).note == "as a prefix"
    assert taking.asked == [("ab", 2, {"limit": 3})]
    side = plain.ask(("ab", 2, {"limit": 3}), **PATIENT)
    assert (side.hits, side.note) == (hits("ab"), "")


def test_a_generation_moves_with_the_manifest_and_with_the_number() -> None:
    moving = Arm()
    seen = [generation_of(moving)]
    moving.generation += 1
    seen.append(generation_of(moving))
    moving.manifest = OTHER
    assert len({*seen, generation_of(moving)}) == 3
    assert generation_of(Plain()) == OTHER.fingerprint[:16]
