"""``surface.dates``: what a bound admits, to the microsecond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.stacks.agent_mail.mcp_tools.arguments import earliest, latest, written
from tests.engines.agent_mail.mcp_tools.conftest import DAY_US, MAY_1


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


def test_an_instant_outside_the_calendar_is_not_written() -> None:
    with pytest.raises(OverflowError):
        written(10**18)
