"""The gate sheds for its reasons, counts them, and lets in again."""

from __future__ import annotations

from threading import Thread

from harness.shadow.limits import MINUTE_NS, LoadShedder, Reason
from tests.make.shadow.comparisons import LIMITS, changed

SECOND = 1_000_000_000


class Clock:
    """Stands still until it is told."""

    def __init__(self) -> None:
        self.now = 5 * MINUTE_NS

    def __call__(self) -> int:
        return self.now


def gate(
    *, in_flight: int = 2, queue: int = 1, budget_s: float = 10.0
) -> tuple[LoadShedder, Clock]:
    clock = Clock()
    limits = changed(LIMITS, in_flight=in_flight, queue=queue, budget_s=budget_s)
    return LoadShedder(limits, clock), clock


def test_no_more_pairs_are_inside_than_may_run_and_wait() -> None:
    made, _ = gate()
    assert [made.admit() for _ in range(5)] == [None] * 3 + [Reason.QUEUE] * 2
    made.done(1)
    assert made.inside == 2
    assert made.admit() is None
    assert made.shed == {Reason.QUEUE: 2}


def test_without_a_queue_it_is_the_workers_that_are_busy() -> None:
    made, _ = gate(in_flight=1, queue=0)
    assert [made.admit(), made.admit()] == [None, Reason.IN_FLIGHT]


def test_the_budget_is_of_the_minute_that_just_was() -> None:
    made, clock = gate()
    for spent in (4, 6):
        assert made.admit() is None
        made.done(spent * SECOND)
        clock.now += 20 * SECOND
    assert made.admit() is Reason.BUDGET
    clock.now += 19 * SECOND
    assert made.admit() is Reason.BUDGET
    clock.now += SECOND
    assert made.admit() is None
    made.done(4 * SECOND)
    assert made.admit() is Reason.BUDGET


def test_the_switch_sheds_all_and_lets_in_again() -> None:
    made, _ = gate()
    made.switch_off("by hand")
    assert made.admit() is Reason.OFF
    assert made.off == "by hand"
    made.switch_on()
    assert made.admit() is None
    assert made.shed == {Reason.OFF: 1}


def test_threads_do_not_lose_a_count() -> None:
    made = LoadShedder(changed(LIMITS, queue=0, budget_s=60.0))
    admitted: list[int] = []

    def ask() -> None:
        found = 0
        for _ in range(2_000):
            if made.admit() is None:
                found += 1
                made.done(0)
        admitted.append(found)

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) + sum(made.shed.values()) == 8_000
    assert made.inside == 0
