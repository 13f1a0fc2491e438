"""Dice, lots, slips of the finger, filters and judgements, one at a time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from agent_mail.dice import Dice, Lots, mixed
from agent_mail.filters import NAMES, params, passes
from agent_mail.generate import CONTRAST, judge
from agent_mail.message import Fact, Message
from agent_mail.needs import GRAM, MEANT, Need, about, named
from agent_mail.questions import cut, mistyped
from agent_mail.traffic import traffic
from hypothesis import given
from hypothesis import strategies as st

from harness.core.records import Scalar

pytestmark = pytest.mark.slow
FACT = Fact("outage", "event bus")
MESSAGE = Message(
    message_id=1,
    project_id=3,
    product_id=2,
    thread_id="br-2tnl",
    sender="Ann",
    recipients=("Bob", "Cy"),
    importance="high",
    ack_required=False,
    created_ts=1_000,
    language="en",
    subject="Re: br-2tnl",
    body="See src/bus/core/mod.rs:12, `flush_batch` and 3fa81bc. BR-2TNL.3 is next.",
    states=(FACT,),
    follows=(),
)


def test_dice_are_the_same_on_every_python() -> None:
    dice = Dice("seed", 1)
    assert [dice.below(100) for _ in range(6)] == [87, 5, 14, 99, 89, 71]
    assert dice.some("abcdef", 3) == ["a", "c", "d"]
    assert Dice("seed", 2).below(10**9) != Dice("seed", 1).below(10**9)


def test_keys_are_told_apart_where_their_texts_meet() -> None:
    assert Dice("a", "bc").share() != Dice("ab", "c").share()


@given(st.integers(1, 50), st.integers(0, 60), st.integers())
def test_some_are_different_ones(size: int, count: int, seed: int) -> None:
    drawn = Dice(seed).some(range(size), count)
    assert len(set(drawn)) == len(drawn) == min(size, count)


@given(st.lists(st.integers(0, 10**6), unique=True), st.integers(1, 20))
def test_lots_do_not_hang_on_the_order(numbers: list[int], limit: int) -> None:
    one, other = Lots[int](7, limit), Lots[int](7, limit)
    for number in numbers:
        one.offer(number, number)
    for number in reversed(numbers):
        other.offer(number, number)
    assert one.drawn() == other.drawn() == sorted(numbers, key=lambda n: mixed(7, n))[:limit]


def test_lots_are_fair() -> None:
    counts: Counter[int] = Counter()
    for stream in range(400):
        lots = Lots[int](stream, 5)
        for number in range(20):
            lots.offer(number, number)
        counts.update(lots.drawn())
    assert min(counts.values()) > 60
    assert max(counts.values()) < 140


@given(st.integers(0, 10_000))
def test_a_slip_changes_one_word_a_little(seed: int) -> None:
    text = "rollback previous release token broker"
    words, slipped = text.split(), mistyped(text, Dice(seed)).split()
    changed = [(a, b) for a, b in zip(words, slipped, strict=True) if a != b]
    assert len(changed) == 1
    ((before, after),) = changed
    assert before[0] == after[0]
    assert abs(len(before) - len(after)) <= 1


def test_short_words_are_typed_well() -> None:
    assert mistyped("a b-5 dns", Dice(1)) == "a b-5 dns"


@given(st.integers(0, 10_000))
def test_a_cut_text_ends_inside_a_word(seed: int) -> None:
    *rest, last = cut("old index rebuild", Dice(seed)).split()
    assert rest == ["old", "index"]
    stem = last.removesuffix("*")
    assert "rebuild".startswith(stem)
    assert 3 <= len(stem) < len("rebuild")


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 1_000))
def test_a_filter_lets_the_message_pass_that_it_was_made_of(name: str, seed: int) -> None:
    wanted = params(name, MESSAGE, Dice(seed))
    assert wanted
    assert passes(MESSAGE, wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {"project_id": 2},
        {"product_id": 3},
        {"thread_id": "br-2tnm"},
        {"ack_required": True},
        {"importance": "low,urgent"},
        {"agent_name": "Bob", "direction": "outbox"},
        {"agent_name": "Ann", "direction": "inbox"},
        {"sender_name": "Bob"},
        {"recipient_name": "Ann"},
        {"min_ts": 1_001},
        {"max_ts": 999},
        {"project_id": 3, "max_ts": 999},
    ],
)
def test_a_filter_keeps_others_out(wanted: dict[str, Scalar]) -> None:
    assert not passes(MESSAGE, wanted)


def test_bounds_of_time_are_inclusive() -> None:
    assert passes(MESSAGE, {"min_ts": 1_000, "max_ts": 1_000})


def test_identifiers_are_read_from_the_text() -> None:
    assert MESSAGE.identifiers() == {
        "br-2tnl",
        "br-2tnl.3",
        "src/bus/core/mod.rs",
        "flush_batch",
        "3fa81bc",
    }


def graded(need: Need, *messages: Message) -> dict[int, int]:
    (found,) = judge([need], messages, 1)
    return dict(found.grades)


def test_grades_are_what_messages_say() -> None:
    says = MESSAGE
    follows = replace(MESSAGE, message_id=2, states=(), follows=(FACT,))
    elsewhere = replace(MESSAGE, message_id=3, states=(Fact("outage", "mail relay"),))
    unrelated = replace(MESSAGE, message_id=4, states=())
    need = Need("q", ("s",), about(FACT))
    assert graded(need, says, follows, elsewhere, unrelated) == {1: 2, 2: 1, 3: 0}


def test_a_message_outside_of_the_filter_has_grade_zero() -> None:
    other = replace(MESSAGE, message_id=2, project_id=9)
    need = Need("q", ("s",), about(FACT), params={"project_id": 3})
    assert graded(need, MESSAGE, other) == {1: 2, 2: 0}


def test_a_part_of_a_ticket_is_related_and_a_look_alike_is_not() -> None:
    part = replace(MESSAGE, message_id=2, subject="", body="br-2tnl.4")
    alike = replace(MESSAGE, message_id=3, subject="", body="br-2tnk")
    need = Need("br-2tnl", ("s",), named("br-2tnl"))
    assert graded(need, MESSAGE, part, alike) == {1: 2, 2: 1, 3: 0}


def test_only_so_many_others_are_judged() -> None:
    others = [replace(MESSAGE, message_id=n, states=(Fact("x", "event bus"),)) for n in range(50)]
    grades = graded(Need("q", ("s",), about(FACT)), *others)
    assert list(grades.values()) == [0] * CONTRAST


def test_what_is_answered_is_not_negative() -> None:
    need = Need("q", ("s",), about(FACT), negative=True)
    (answered,) = judge([need], [MESSAGE], 1)
    (unanswered,) = judge([need], [replace(MESSAGE, states=(Fact("x", "event bus"),))], 1)
    (unjudged,) = judge([need], [], 1)
    assert (answered.fit, unanswered.fit, unjudged.fit) == (False, True, False)


def test_a_phrase_is_found_up_to_the_last_word() -> None:
    message = replace(MESSAGE, subject="", body="So the lease ran out.\nToo soon!")
    for words in ("so the lease ran out", "ran out too soon"):
        asked = tuple(words.split())
        found = graded(Need("q", ("s",), {("says", *asked): MEANT}), message)
        assert bool(found) is (len(asked) == GRAM)
    last = ("lease", "ran", "out", "too", "soon")
    assert graded(Need("q", ("s",), {("says", *last): MEANT}), message) == {1: 2}


def test_a_message_names_what_it_speaks_of() -> None:
    said = [posted.first for posted in traffic(5, 1_000) if posted.first.states]
    assert len(said) > 400
    for message in said:
        assert all(fact.component in message.text for fact in message.states)


def test_an_edited_message_was_about_another_component_before() -> None:
    edited = [p for p in traffic(5, 1_000) if p.last and p.last is not p.first]
    assert len(edited) >= 14
    for posted in edited:
        assert posted.last is not None
        (before,), (after,) = posted.first.states, posted.last.states
        assert before.concept == after.concept
        assert before.component != after.component
        assert after.component not in posted.first.text
        assert posted.first.message_id == posted.last.message_id
