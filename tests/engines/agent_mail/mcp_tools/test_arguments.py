"""``surface.arguments`` and ``surface.refused``: other names, conflicts, and what is left out."""

from __future__ import annotations

import pytest

from engines.mcp_server import Code, Refused, parameters, resolved
from engines.stacks.agent_mail.mcp_tools.arguments import (
    InProduct,
    InProject,
)

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


@pytest.mark.parametrize(("name", "other"), PAIRS)
def test_two_names_may_agree_and_may_not_differ(name: str, other: str) -> None:
    value, another = values(name)
    assert getattr(resolved(InProject, {**HERE, name: value, other: value}), name) == value
    with pytest.raises(Refused) as told:
        resolved(InProject, {**HERE, name: value, other: another})
    assert told.value.code is Code.INVALID_ARGUMENT
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
    with pytest.raises(Refused):
        resolved(InProduct, given)


def test_one_instant_in_two_spellings_is_no_conflict() -> None:
    given = resolved(
        InProject,
        {
            **HERE,
            "since": "2026-05-01",
            "date_start": "2026-05-01T02:00+02:00",
            "until": "2026-05-01",
            "before": "2026-05-01T23:59:59.999999Z",
        },
    )
    assert given.date_start == "2026-05-01T02:00+02:00"


def test_empty_and_null_are_as_good_as_absent() -> None:
    given = {**HERE, "sender": "", "from_agent": None, "sender_name": "Ann", "cursor": None}
    assert resolved(InProject, given) == resolved(InProject, {**HERE, "sender": "Ann"})


def test_the_defaults_are_those_of_section_6() -> None:
    given = resolved(InProject, HERE)
    assert (given.limit, given.offset, given.explain) == (20, 0, False)


@pytest.mark.parametrize(
    "wrong", [{"offset": -1}, {"offset": 5_001}, {"min_score": "nan"}, {"colour": "red"}]
)
def test_values_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(Refused):
        resolved(InProject, {**HERE, **wrong})


def test_the_signature_names_every_parameter_of_section_6() -> None:
    messages = parameters(InProject)["properties"]
    product = parameters(InProduct)["properties"]
    for name in (
        "project_key", "query", "limit", "offset", "ranking", "sender", "from_agent",
        "sender_name", "importance", "thread_id", "date_start", "date_from", "after", "since",
        "date_end", "date_to", "before", "until", "explain",
    ):  # fmt: skip
        assert name in messages
    for name in (
        "product_key", "query", "limit", "project", "project_key_filter", "project_slug", "proj",
        "sender", "from_agent", "sender_name", "importance", "thread_id", "date_start",
        "date_from", "after", "since", "date_end", "date_to", "before", "until",
    ):  # fmt: skip
        assert name in product
    assert set(parameters(InProject)["required"]) == {"project_key", "query"}
    assert not {"project", "proj"} & set(messages)
