"""What the tools take: parameters, dates, hints in a text; and what they say of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_engines.contract import IndexUnavailable
from harness_engines.mcp_server import RefusalCode, ToolRefusal, parameters, resolved
from harness_engines.stacks.agent_mail.contract import Importance, SearchQuery, TimeRange
from harness_engines.stacks.agent_mail.mcp_tools import arguments
from harness_engines.stacks.agent_mail.mcp_tools.arguments import (
    HINT_ALIASES,
    HintField,
    InProduct,
    InProject,
    distance,
    earliest,
    latest,
    written,
)
from harness_engines.stacks.agent_mail.mcp_tools.results import DidYouMean, pathless
from harness_engines.stacks.agent_mail.mcp_tools.search import guide
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier
from harness_engines.stacks.agent_mail.pipeline.scope import viewer
from tests.engines.agent_mail.fakes import Failing, message, service
from tests.engines.agent_mail.tools import DAY_US, MAY_1, over

HERE = {"project_key": "*", "query": "x"}
PAIRS = [
    *(("sender", other) for other in ("from_agent", "sender_name")),
    ("recipient", "recipient_name"),
    *(("date_start", other) for other in ("date_from", "after", "since")),
    *(("date_end", other) for other in ("date_to", "before", "until")),
]
"""Of section 6, written apart from the code."""
DATES = ("2026-05-01", "2026-05-02")


def values(name: str) -> tuple[str, str]:
    return DATES if name.startswith("date") else ("Ann", "Bob")


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_every_other_name_means_the_same(name: str, other: str) -> None:
    value, _ = values(name)
    assert resolved(InProject, {**HERE, other: value}) == resolved(InProject, {**HERE, name: value})
    assert getattr(resolved(InProject, {**HERE, other: value}), name) == value
    value, another = values(name)
    assert getattr(resolved(InProject, {**HERE, name: value, other: value}), name) == value
    with pytest.raises(ToolRefusal) as told:
        resolved(InProject, {**HERE, name: value, other: another})
    assert told.value.code is RefusalCode.INVALID_ARGUMENT
    assert str(told.value).startswith("INVALID_ARGUMENT: ")
    assert name in str(told.value)
    assert other in str(told.value)


@pytest.mark.parametrize("others", list(InProduct.aliases.values()))
def test_two_other_names_are_held_against_each_other(others: tuple[str, ...]) -> None:
    first, *_, last = ("project", *others)
    if first == last or last in InProduct.aliases["project"]:
        given = {"product_key": "p", "query": "x", "project": "a", last: "b"}
    else:
        given = {"product_key": "p", "query": "x", others[0]: DATES[0], others[-1]: DATES[1]}
    if len(others) == 1:
        given |= {"recipient": "Zoe"}
    with pytest.raises(ToolRefusal):
        resolved(InProduct, given)


def test_one_instant_in_two_spellings_is_no_conflict() -> None:
    dates = {
        "since": "2026-05-01",
        "date_start": "2026-05-01T02:00+02:00",
        "until": "2026-05-01",
        "before": "2026-05-01T23:59:59.999999Z",
    }
    assert resolved(InProject, {**HERE, **dates}).date_start == dates["date_start"]
    given = {**HERE, "sender": "", "from_agent": None, "sender_name": "Ann", "cursor": None}
    asked = resolved(InProject, given)
    assert asked == resolved(InProject, {**HERE, "sender": "Ann"})
    assert (asked.limit, asked.offset, asked.explain) == (20, 0, False)


@pytest.mark.parametrize(
    "wrong", [{"offset": -1}, {"offset": 5_001}, {"min_score": "nan"}, {"colour": "red"}]
)
def test_values_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ToolRefusal):
        resolved(InProject, {**HERE, **wrong})


def test_the_signature_names_every_parameter_of_section_6() -> None:
    both = {
        "query", "limit", "sender", "from_agent", "sender_name", "importance", "thread_id",
        "date_start", "date_from", "after", "since", "date_end", "date_to", "before", "until",
    }  # fmt: skip
    messages, product = (parameters(of)["properties"].keys() for of in (InProject, InProduct))
    assert {*both, "project_key", "offset", "ranking", "explain"} <= messages
    projects = {"project", "project_key_filter", "project_slug", "proj"}
    assert {*both, "product_key", *projects} <= product
    assert set(parameters(InProject)["required"]) == {"project_key", "query"}
    assert not {"project", "proj"} & messages


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2026-05-01", 0, DAY_US - 1),
        (" 2026-05-01 ", 0, DAY_US - 1),
        ("2026-05-01T00:00:00Z", 0, 0),
        ("2026-05-01t00:00:00z", 0, 0),
        ("2026-05-01 00:00", 0, 0),
        ("2026-05-01T02:00:00+02:00", 0, 0),
        ("2026-04-30T22:30:00-0130", 0, 0),
        ("2026-05-01T00:00:00.5", 500_000, 500_000),
        ("2026-05-01T00:00:00,000001Z", 1, 1),
        ("2026-05-01T00:00:00.000001000Z", 1, 1),
        ("2026-05-01T00:00:00.0000015Z", 2, 1),
        ("2026-05-01T23:59:59.999999", DAY_US - 1, DAY_US - 1),
    ],
)
def test_a_bound_is_inclusive_and_in_utc(text: str, first: int, last: int) -> None:
    assert (earliest(text) - MAY_1, latest(text) - MAY_1) == (first, last)


@pytest.mark.parametrize(
    "text",
    [
        "yesterday", "", "2026", "2026-05", "20260501", "2026-W18-5", "2026-13-01", "2026-02-30",
        "2026-05-01T25:00:00", "2026-05-01T24:00:00", "2026-05-01T00:00:60", "2026-05-01T",
        "2026-05-01T00:00:00.Z", "2026-05-01T00:00:00+99:00", "٢٠٢٦-05-01", "0000-01-01",
    ],
)  # fmt: skip
def test_what_is_no_date_is_refused(text: str) -> None:
    for read in (earliest, latest):
        with pytest.raises(ValueError, match=r"date|month|day|year"):
            read(text)


def test_the_ends_of_the_calendar_do_not_overflow() -> None:
    assert earliest("0001-01-01") < 0
    assert latest("9999-12-31") == latest("9999-12-31T23:59:59.999999")
    with pytest.raises(OverflowError):
        written(10**18)


@given(st.integers(-60_000_000_000_000_000, 250_000_000_000_000_000))
def test_what_is_written_is_read_back(microseconds: int) -> None:
    assert earliest(written(microseconds)) == latest(written(microseconds)) == microseconds


@given(st.datetimes(min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))  # noqa: DTZ001
def test_a_day_ends_where_the_next_begins(moment: datetime) -> None:
    day = moment.date()
    following = (moment + timedelta(days=1)).date()
    assert latest(str(day)) + 1 == earliest(str(following))
    within = moment.replace(tzinfo=UTC).isoformat()
    assert earliest(str(day)) <= earliest(within) <= latest(str(day))


def all_of(text: str) -> arguments.Typed:
    return arguments.read_hints(text, lambda _: True)


@pytest.mark.parametrize(
    ("name", "field"),
    [(name, field) for field, names in HINT_ALIASES.items() for name in (field.value, *names)],
)
def test_every_name_of_a_field_is_taken_out(name: str, field: HintField) -> None:
    found = all_of(f"plan {name.upper()}:x token")
    assert found.text == "plan token"
    assert [(hint.field, hint.value, hint.typed) for hint in found.taken] == [
        (field, "x", f"{name.upper()}:x")
    ]
    assert found.slips == ()


@pytest.mark.parametrize(
    ("text", "left", "values"),
    [
        ('thread:"a b" plan', "plan", ["a b"]),
        ("from:Ann from:Bob", "", ["Ann", "Bob"]),
        ("a  from:Ann  b", "a b", ["Ann"]),
        ("after:2026-05-01T10:00", "", ["2026-05-01T10:00"]),
        ('"from:Ann" plan', '"from:Ann" plan', []),
        ("-from:Ann", "-from:Ann", []),
        ("xfrom:Ann", "xfrom:Ann", []),
        ("from: Ann", "from: Ann", []),
        ('from:"" x', 'from:"" x', []),
        ('from:Ann"x"', 'from:Ann"x"', []),
        ("from", "from", []),
        ("http://from:80", "http://from:80", []),
        ("  untouched   text ", "  untouched   text ", []),
        ("", "", []),
    ],
)
def test_a_hint_stands_by_itself(text: str, left: str, values: list[str]) -> None:
    typed = all_of(text)
    assert (typed.text, [hint.value for hint in typed.taken]) == (left, values)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("form:Ann", "from:Ann"),
        ("fron:Ann", "from:Ann"),
        ("frm:Ann", "from:Ann"),
        ("tread:t1", "thread:t1"),
        ("importnce:high", "importance:high"),
        ("befor:2026-05-01", "before:2026-05-01"),
        ("afterr:2026-05-01", "after:2026-05-01"),
        ("Projekt:x", "project:x"),
        ('tread:"a b"', 'thread:"a b"'),
    ],
)
def test_a_near_miss_stays_text_and_is_pointed_at(typed: str, meant: str) -> None:
    found = all_of(f"plan {typed}")
    assert found.text == f"plan {typed}"
    assert found.taken == ()
    assert found.slips == (DidYouMean(typed=typed, suggestion=meant),)


@pytest.mark.parametrize("text", ["note:x", "http:x", "subject:plan", "a:b", "f:x", "cc:Ann"])
def test_a_far_miss_is_text(text: str) -> None:
    assert all_of(text) == arguments.Typed(text, (), ())


def test_a_hint_that_is_not_taken_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    found = arguments.read_hints("after:soon from:Ann", lambda hint: hint.field is HintField.FROM)
    assert found.text == "after:soon"
    monkeypatch.setattr(arguments, "distance", lambda *_: 2)
    assert all_of("x:y").slips == (DidYouMean(typed="x:y", suggestion="after:y"),)


WORDS = st.text("abc", max_size=5)


@given(WORDS, WORDS, WORDS)
def test_edit_distance_is_a_metric(a: str, b: str, c: str) -> None:
    assert (distance(a, b) == 0) == (a == b)
    assert distance(a, b) == distance(b, a)
    assert distance(a, c) <= distance(a, b) + distance(b, c)


@pytest.mark.parametrize(
    ("one", "other", "away"), [("kitten", "sitting", 3), ("", "abc", 3), ("flaw", "lawn", 2)]
)
def test_edit_distance_by_hand(one: str, other: str, away: int) -> None:
    assert distance(one, other) == away


@given(st.text(max_size=60))
def test_no_question_is_an_error(text: str) -> None:
    typed = all_of(text)
    assert typed.taken or typed.text == text


FILTERS: Sequence[tuple[str, dict[str, object]]] = (
    ("broaden_date_range", {"time_range": TimeRange(None, 5)}),
    ("drop_importance_filter", {"importance": (Importance.HIGH,)}),
    ("drop_agent_filter", {"sender_name": "Ann"}),
    ("drop_thread_filter", {"thread_id": "t1"}),
    ("drop_ack_filter", {"ack_required": False}),
)
SLIPS = (
    DidYouMean(typed="form:a", suggestion="from:a"),
    DidYouMean(typed="tread:b", suggestion="thread:b"),
)


def kinds(query: SearchQuery, slips: Sequence[DidYouMean] = ()) -> list[str]:
    return [suggestion.kind for suggestion in guide(query, slips).suggestions]


@pytest.mark.parametrize("count", range(1, len(FILTERS) + 1))
def test_filters_come_in_one_order(count: int) -> None:
    for chosen in combinations(FILTERS, count):
        given = {key: value for _, about in chosen for key, value in about.items()}
        query = SearchQuery("x", **given)  # type: ignore[arg-type]
        assert kinds(query) == [kind for kind, _ in chosen]
        assert kinds(query, SLIPS) == [*(kind for kind, _ in chosen), "fix_typo", "fix_typo"]


@pytest.mark.parametrize(
    ("query", "slips", "expected"),
    [
        *(
            (SearchQuery("x", **{name: "Ann"}), (), ["drop_agent_filter"])  # type: ignore[arg-type]
            for name in ("sender_name", "recipient_name", "agent_name")
        ),
        (SearchQuery("x"), (), ["simplify_query"]),
        (SearchQuery("x", project_id=1, min_score=0.5), (), ["simplify_query"]),
        (SearchQuery("x"), SLIPS[:1], ["fix_typo"]),
    ],
)
def test_what_is_suggested(
    query: SearchQuery, slips: Sequence[DidYouMean], expected: list[str]
) -> None:
    assert kinds(query, slips) == expected


def test_a_suggestion_says_what_it_is_about() -> None:
    found = guide(SearchQuery("x", sender_name="Ann", recipient_name="Bob"), SLIPS[:1])
    agents, typo = found.suggestions
    assert "sender Ann and recipient Bob" in agents.detail
    assert "form:a" in typo.detail
    assert "from:a" in typo.detail


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("tantivy: /srv/mail/build/index: is being rebuilt", "tantivy: index: is being rebuilt"),
        ("OSError: [Errno 2] '/srv/mail/a b'", "OSError: [Errno 2] 'a b'"),
        ("words and/or a/b/c, br-2tnl", "words and/or a/b/c, br-2tnl"),
        ("http://127.0.0.1:80/a/b", "http://127.0.0.1:80/a/b"),
        ("", ""),
    ],
)
def test_a_file_is_named_without_its_folder(said: str, told: str) -> None:
    assert pathless(said) == told


@pytest.mark.parametrize("scope", [None, viewer("Bob", frozenset(), frozenset())])
def test_no_caller_reads_where_an_index_lies(scope: object) -> None:
    broken = Failing("tantivy", IndexUnavailable("/srv/private/index: is not there"))
    mail = service([message(1, "a")], lexical={FallbackTier.TANTIVY: broken})
    found = over(mail, scope=scope).found("a", explain=True)  # type: ignore[arg-type]
    assert "/srv" not in str(found)
