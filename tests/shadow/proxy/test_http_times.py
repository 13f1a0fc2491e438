"""What counts as the control's time (http_clock), and what is not known (http_exchange)."""

from __future__ import annotations

from pathlib import Path

from harness.shadow.proxy.http_exchange import Exchange
from harness.shadow.proxy.http_tap import Answers
from harness.shadow.proxy.http_tunnel import Clock
from tests.make.shadow.servers import settled
from tests.shadow.wire import ANSWER, SEARCH, Wire, exactly, joined, request, said_to, through

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def waiting(*passed_ns: int) -> tuple[Answers, list[Exchange]]:
    answers = Answers(100)
    asked = [Exchange("GET", b"/", (), passed_ns=at) for at in passed_ns]
    answers.waiting.extend(asked)
    return answers, asked


def times(asked: list[Exchange]) -> list[int | None]:
    return [one.waited_ns for one in asked]


def test_a_time_is_from_the_request_or_the_answer_before_it() -> None:
    answers, asked = waiting(10, 20, 90)
    answers.feed(OK[:5], 30)
    answers.feed(OK[5:], 50)
    answers.feed(OK, 70)
    answers.feed(OK, 100)
    assert times(asked) == [40, 20, 10]


def test_of_answers_that_come_at_once_only_the_first_time_is_known() -> None:
    answers, asked = waiting(10, 20, 30)
    answers.feed(OK * 3, 50)
    assert times(asked) == [40, None, None]


def test_the_time_of_an_answer_before_its_request_was_whole_is_not_known() -> None:
    answers, asked = waiting(0)
    answers.feed(OK[:-1], 50)
    asked[0].passed_ns = 60
    answers.feed(OK[-1:], 70)
    assert times(asked) == [None]


def test_a_stall_hides_what_the_control_did_meanwhile() -> None:
    answers, asked = waiting(10, 20)
    answers.feed(OK[:5], 30)
    answers.feed(OK[5:-1], 30)
    answers.stalled()
    answers.feed(OK[-1:] + OK, 60)
    assert times(asked) == [50, None]


def test_the_clock_stands_still_while_a_client_takes_its_answer() -> None:
    ticks = iter([100, 110, 120, 170, 180])
    clock = Clock(lambda: next(ticks))
    assert clock.now() == 11
    with clock.stall():
        assert clock.now() == clock.now() == 21
    assert clock.now() == 31
    assert clock.stalled == 50


def test_pipelined_queries_are_compared_and_their_times_as_far_as_known(tmp_path: Path) -> None:
    """A time of 0 was written down for each but the first."""
    wire = Wire([ANSWER * 20], [len(SEARCH) * 20])
    with through(tmp_path, wire) as (url, made):
        assert said_to(url, SEARCH * 20, step=10_000) == ANSWER * 20
        found = settled(made, attempts=20)
    assert found.tally.compared == 20
    control = [one.control.elapsed_ns for one in found.observations if one.control]
    assert 0 not in control
    assert any(control)


EARLY = request(b"GET /search?q=apple HTTP/1.1", b"Content-Length: 5")


def test_an_answer_that_begins_early_has_no_time(tmp_path: Path) -> None:
    wire = Wire([ANSWER[:-1], ANSWER[-1:]], [len(EARLY), 5])
    with through(tmp_path, wire) as (url, made), joined(url) as opened:
        opened.sendall(EARLY)
        assert exactly(opened, len(ANSWER) - 1) == ANSWER[:-1]
        opened.sendall(b"{   }")
        assert exactly(opened, 1) == ANSWER[-1:]
        (one,) = settled(made).observations
    assert one.control is not None
    assert one.control.elapsed_ns is None


def test_a_request_that_was_answered_before_its_end_is_not_sent_in_part(tmp_path: Path) -> None:
    """The candidate could get half a body."""
    wire = Wire([ANSWER, b""], [len(EARLY) + 2, 3])
    with through(tmp_path, wire) as (url, made), joined(url) as opened:
        opened.sendall(EARLY + b"{}")
        assert exactly(opened, len(ANSWER)) == ANSWER
        found = settled(made, faults=1)
        opened.sendall(b"   ")
    assert found.tally.attempted == 0
    assert "before its request was whole" in found.degradations[0].cause
