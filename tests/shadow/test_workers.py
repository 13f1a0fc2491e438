"""A candidate that fails in any way is a side of a pair, or a worker that is lost."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from harness.core.engine import Answer, Hit
from harness.core.run import Status
from harness.shadow.pair import Generation
from harness.shadow.record import ProblemKind
from harness.shadow.worker import QUESTION_BYTES, Open, ProcessWorker, WorkerLost
from tests.make.shadow_log import LIMITS, MS, SECOND, Here, changed
from tests.shadow.arms import OTHER, Arm, Plain, arm, broken, given, hits, slow_to_open

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("anew")]
PATIENT = {"late_ns": 20 * SECOND, "hang_ns": 20 * SECOND}


def process(opens: Open, start_s: float = 30.0) -> ProcessWorker:
    return ProcessWorker(opens, changed(LIMITS, start_s=start_s))


def children() -> list[psutil.Process]:
    """Candidates of this process that still run."""
    return [one for one in psutil.Process().children() if "spawn_main" in str(one.cmdline())]


def test_a_worker_answers_with_who_it_is_and_what_it_cost() -> None:
    worker = process(arm())
    side = worker.ask(("abc", 2, {}), **PATIENT)
    assert (side.status, side.hits) == (Status.ANSWERED, hits("ab"))
    assert side.served_by == OTHER.fingerprint
    assert side.before == side.after == f"{OTHER.fingerprint[:16]}:0"
    assert side.elapsed_ns is not None
    assert 0 < side.elapsed_ns < 20 * SECOND
    raised = worker.ask(("abc", 2, {}), late_ns=0, hang_ns=20 * SECOND)
    assert raised.status is Status.TIMED_OUT
    worker.close()


def test_an_exception_is_an_answer_of_its_own_kind() -> None:
    worker = process(arm("raise"))
    side = worker.ask(("raise", 2, {}), **PATIENT)
    assert side.status is Status.FAILED
    assert side.error == "ValueError: half of a character: \\ud800"
    assert worker.ask(("ab", 2, {}), **PATIENT).status is Status.ANSWERED
    worker.close()


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


def test_a_process_that_is_killed_is_lost_and_too_long_a_question_not_asked() -> None:
    worker = process(arm())
    side = worker.ask(("x" * QUESTION_BYTES, 2, {}), **PATIENT)
    assert side.status is Status.NOT_ASKED
    assert worker.ask(("ab", 2, {}), **PATIENT).status is Status.ANSWERED
    (child,) = children()
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(WorkerLost, match="exit code -9"):
        worker.ask(("ab", 2, {}), **PATIENT)
    worker.close()


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
        "ab",
        Answer([Hit("a", 1.0, 1.0)], "x"),  # type: ignore[arg-type]
        Answer((Hit("a", float("nan"), 1.0),), "x"),
        Answer(hits("abcde"), "x"),
        Answer(hits("a"), None),  # type: ignore[arg-type]
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
