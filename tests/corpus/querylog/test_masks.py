"""Personal data are found by their form or check digit; what looks like them is left alone."""

from __future__ import annotations

import pytest

from harness.logs.querylog import masked


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("mail of jane.doe+x@mail.example.org please", "mail of <email> please"),
        ("call +49 30 123456-78 now", "call <phone> now"),
        ("call 030 1234567", "call <phone>"),
        ("555-123-4567", "<phone>"),
        ("pay 4111 1111 1111 1111", "pay <card>"),
        ("to DE89 3704 0044 0532 0130 00", "to <account>"),
        ("ping 192.168.0.12", "ping <address>"),
        ("ping 2001:db8:0:0:0:ff00:42:8329", "ping <address>"),
        ("api_key=abc123 in vim", "<secret> in vim"),
        ("password: hunter2", "<secret>"),
        ("Bearer eyJhbGciOi.abc", "<secret>"),
        ("https://me:pw@host/a?access_token=1&b=2", "https://<secret>@host/a?<secret>&b=2"),
        ("AKIAIOSFODNN7EXAMPLE", "<secret>"),
        ("error 9f86d081884c7d659a2feaa0c55ad015", "error <token>"),
    ],
)
def test_it_is_masked_by_kind(text: str, becomes: str) -> None:
    assert masked(text)[0] == becomes
    assert masked(text)[1]


@pytest.mark.parametrize(
    "text",
    [
        "read_csv memory_map", "python 3.11.4", "1.2.3", "999.1.1.1", "iso 8601 2024-01-31",
        "4111 1111 1111 1112", "GB82 WEST 1234 5698 7654 33", "internationalization_of_numbers",
        "how do i reset my password", "token bucket", "a+b@", "12:30:45", "0000 0000 0000 0000",
        "numpy.linalg.lstsq", "RFC 7231", "std::vector::push_back",
    ],
)  # fmt: skip
def test_what_looks_like_it_is_left_alone(text: str) -> None:
    assert masked(text) == (text, ())


def test_kinds_are_told_once_each() -> None:
    assert masked("a@b.org, c@d.org, 10.0.0.1")[1] == ("email", "address")
