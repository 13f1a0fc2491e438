"""Users get what the control answers, whatever becomes of the candidate."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Queue
from typing import Any, cast

import pytest
from opentelemetry import metrics, trace

from harness.agreement import Class
from harness.core.engine import Answer
from harness.core.records import Scalar
from harness.core.run import Status
from harness.shadow.comparison import Shadowed
from harness.shadow.record import ProblemKind
from harness.shadow.telemetry import to_opentelemetry
from harness.shadow.worker import ProcessWorker
from tests.make.shadow_log import HASTY, LIMITS, comparison, drained, here, in_process
from tests.shadow.arms import MANIFEST, OTHER, Arm, Plain, arm, given, hits

pytestmark = pytest.mark.slow
TEXTS = ["ab", "abc", "", "cde", "zzz", "ae"]


def test_the_very_answer_of_the_control_is_served(tmp_path: Path) -> None:
    shown: list[Answer] = []

    def act(_: str, __: int) -> Answer:
        shown.append(Answer(hits("ab"), MANIFEST.fingerprint))
        return shown[-1]

    with comparison(tmp_path, here(arm())) as made:
        shadowed = Shadowed(Arm(act=act), made)
        answers = [shadowed.search("ab", 10), shadowed.search_with("ab", 10, {"limit": 3})]
        found = drained(made)
    assert all(answer is one for answer, one in zip(answers, shown, strict=True))
    assert found.tally.compared == 2


def test_a_client_is_written_by_a_key_of_the_log_and_never_as_it_is(tmp_path: Path) -> None:
    keys = []
    for folder in (tmp_path / "one", tmp_path / "other"):
        with comparison(folder, here(arm())) as made:
            shadowed = Shadowed(Arm(), made)
            for client in ("Judy!", "Judy!", "Trent"):
                shadowed.search("ab", 10, client=client)
            shadowed.search_with("ab", 10, {}, client="Judy!")
            shadowed.search("ab", 10)
            keys.append([one.client for one in drained(made).observations])
        assert not any(b"Judy!" in one.read_bytes() for one in folder.iterdir())
        assert (folder / "salt").stat().st_mode & 0o777 == 0o600
    judy, again, trent, third, none = keys[0]
    assert judy == again == third != trent
    assert (len(judy), none) == (32, "")
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    ("how", "start"),
    [("raise", here), ("garbage", here), ("quit", here), ("hang", in_process),
     ("exit", in_process)],
)  # fmt: skip
def test_a_candidate_that_misbehaves_changes_no_answer(
    tmp_path: Path, how: str, start: Callable[..., Callable[[], ProcessWorker]]
) -> None:
    alone, limits = Arm(), HASTY if how == "hang" else LIMITS
    texts = [*TEXTS, how, *TEXTS]
    with comparison(tmp_path, start(arm(how)), limits=limits) as made:
        shadowed = Shadowed(Arm(), made)
        for text in texts:
            assert shadowed.search(text, 10) == alone.search(text, 10)
        found = drained(made)
    assert (found.tally.attempted, found.tally.errored) == (len(texts), 1)
    bad = found.observations[len(TEXTS)]
    assert bad.outcome is (Class.TIMEOUT if how == "hang" else Class.ERROR)
    assert all(one.compared for one in found.observations if one is not bad)


@pytest.mark.parametrize("error", [KeyError("x"), RuntimeError("\ud800"), KeyboardInterrupt()])
def test_what_the_control_raises_is_raised(tmp_path: Path, error: BaseException) -> None:
    def act(_: str, __: int) -> Answer:
        raise error

    with comparison(tmp_path, here(arm())) as made:
        with pytest.raises(type(error)) as caught:
            Shadowed(Arm(act=act), made).search("ab", 10)
        found = drained(made)
    assert caught.value is error
    told = [(one.control.error.split(":")[0], one.candidate.status) for one in found.divergences]
    failed = (type(error).__name__, Status.ANSWERED)
    stopped_by_a_person = isinstance(error, KeyboardInterrupt)
    assert told == ([] if stopped_by_a_person else [failed])
    assert found.tally.errored == len(told)


def test_each_arm_has_its_own_clock(tmp_path: Path) -> None:
    """The candidate takes longer than the whole call did that served the control."""
    served_ns: Queue[int] = Queue()

    def slow(_: str, __: int) -> Answer:
        began = time.perf_counter_ns()
        took_ns = served_ns.get(timeout=30)
        while time.perf_counter_ns() - began <= took_ns:
            time.sleep(0.001)
        return Answer(hits("a"), OTHER.fingerprint)

    with comparison(tmp_path, here(given(Arm(OTHER, slow)))) as made:
        began = time.perf_counter_ns()
        Shadowed(Arm(), made).search("a", 10)
        took_ns = time.perf_counter_ns() - began
        served_ns.put(took_ns)
        (one,) = drained(made).observations
    control, candidate = ((side and side.elapsed_ns) or 0 for side in (one.control, one.candidate))
    assert 0 < control <= took_ns < candidate


@pytest.mark.parametrize("moves", ["control", "candidate"])
def test_an_index_that_moves_during_the_pair_makes_it_stale(tmp_path: Path, moves: str) -> None:
    control, candidate = Arm(), Arm(OTHER)
    mover = control if moves == "control" else candidate

    def act(text: str, k: int) -> Answer:
        mover.generation += text == "move"
        return Answer(hits("b"[:k]), OTHER.fingerprint)

    candidate.act = act
    with comparison(tmp_path, here(given(candidate))) as made:
        shadowed = Shadowed(control, made)
        for text in ("a", "move", "a"):
            shadowed.search(text, 10)
            found = drained(made)
    outcomes = [one.outcome for one in found.observations]
    assert outcomes == [Class.DISJOINT, Class.STALE, Class.DISJOINT]
    assert found.tally.skipped == 1
    assert moves in found.observations[1].reason


def test_whatever_else_the_control_can_do_it_can_do_here(tmp_path: Path) -> None:
    control = Arm()
    with comparison(tmp_path, here(arm())) as made:
        shadowed = Shadowed(control, made)
        assert shadowed.manifest is MANIFEST
        assert shadowed.asked is control.asked
        with pytest.raises(AttributeError):
            _ = shadowed.nothing


def test_a_failure_of_our_own_is_counted_and_not_served(tmp_path: Path) -> None:
    bad = cast("Mapping[str, Scalar]", 7)
    with comparison(tmp_path, here(arm())) as made:
        shadowed = Shadowed(Plain("ab"), made)
        for _ in range(5):
            assert shadowed.search_with("x", 10, bad).hits == hits("ab")
        shadowed.search("x", 0)
        shadowed.search(cast("str", None), 10)
        found = drained(made)
        assert made.counts.faults == 7
    assert found.tally.attempted == 0
    said = [one for one in found.degradations if one.kind is ProblemKind.NOT_TAKEN]
    assert len({one.cause for one in said}) == 3
    assert sum(one.times for one in said) == 7


class Reported(list[tuple[Any, ...]]):
    """A meter, its instruments, a tracer and its spans: all that is reported is in the list."""

    def named(self, name: str, **_: str) -> "Reported":
        made = Reported()
        made.add = made.record = lambda *said: self.append((name, *said))  # type: ignore[attr-defined]
        return made

    create_counter = create_histogram = named

    def start_span(
        self, name: str, *, attributes: dict[str, object], start_time: int
    ) -> "Reported":
        made = Reported()
        made.end = lambda until: self.append((name, attributes["outcome"], until - start_time))  # type: ignore[attr-defined]
        return made


def test_each_attempt_is_reported_as_it_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = Reported()
    monkeypatch.setattr(metrics, "get_meter", lambda _: reported)
    monkeypatch.setattr(trace, "get_tracer", lambda _: reported)
    with comparison(tmp_path, here(arm()), export=to_opentelemetry()) as made:
        for text in ("ab", "zzz", "secret words"):
            Shadowed(Arm(), made).search(text, 10, client="Judy!")
        logged = drained(made).observations

    def by(name: str) -> list[tuple[Any, ...]]:
        return [one[1:] for one in reported if one[0] == name]

    outcomes = [one.outcome.value for one in logged]
    assert sorted(said["outcome"] for _, said in by("shadow.attempts")) == sorted(outcomes)
    assert set(by("shadow.attempt")) == {
        (one.outcome.value, one.candidate.elapsed_ns) for one in logged if one.candidate
    }
    assert len(by("shadow.duration")) == 2 * len(logged)
    jaccards = [one.jaccard for one in logged if one.jaccard is not None]
    assert [said[0] for said in by("shadow.jaccard")] == jaccards
    assert not any(word in str(reported) for word in ("secret", "Judy!"))
