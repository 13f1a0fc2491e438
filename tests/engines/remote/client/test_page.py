"""``remote.client.page``: an answer is read strictly, and who made it is not taken on trust."""

from __future__ import annotations

from typing import Any

import pytest

from engines.stacks.remote.mcp import Malformed, read_page

OWN = {"engine": "tantivy", "actual_mode": "lexical"}
ROW = {"id": 1, "score": 1.0, "raw_score": 7.5, "subject": "more than is read"}


def answer(**changed: Any) -> dict[str, Any]:  # noqa: ANN401  whatever a server may send
    return {"result": [ROW], "explain": OWN, **changed}


def test_a_server_may_say_more_and_less() -> None:
    page = read_page({"result": [{"id": "a"}], "weather": "fair"}, 5)
    assert (page.result[0].id, page.result[0].score, page.next_cursor) == ("a", None, None)
    assert page.note == ""


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({}, "result"),
        ({"result": None}, "result"),
        ({"result": [{"score": 1.0}]}, r"result\.0\.id"),
        ({"result": [{"id": 1.5}]}, r"result\.0\.id"),
        ({"result": [{"id": 1, "score": "1"}]}, "score"),
        ({"result": [{"id": 1, "score": float("nan")}]}, "NaN"),
        ({"result": [{"id": 1, "score": 1, "raw_score": float("inf")}]}, "infinite"),
        ({"result": [ROW, {"id": 2}]}, "some messages have a score"),
        ({"result": [ROW] * 3}, "3 messages came, 2 were requested"),
        ({"result": [], "next_cursor": "x"}, "empty page"),
        ({"result": [ROW], "next_cursor": 5}, "next_cursor"),
        ({"result": [ROW], "explain": "none"}, "explain"),
        ({"result": [ROW], "served_by": {}}, "fingerprint"),
    ],
)
def test_what_is_malformed_is_a_failure(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(Malformed, match=says):
        read_page(wrong, 2)


@pytest.mark.parametrize(
    ("changed", "own"),
    [
        ({}, True),
        ({"served_by": {"fingerprint": "v1"}}, True),
        ({"diagnostics": {"degraded": False, "signals": ["invalid_query"]}}, True),
        ({"explain": None}, False),
        ({"explain": {}}, False),
        ({"explain": {**OWN, "engine": "fts5"}}, False),
        ({"explain": {**OWN, "actual_mode": "hybrid"}}, False),
        ({"explain": {**OWN, "mode_downgraded": True}}, False),
        ({"explain": {**OWN, "used_like_fallback": True}}, False),
        ({"explain": {**OWN, "cursor_invalidated": True}}, False),
        ({"diagnostics": {"reason": "torn"}}, False),
        ({"diagnostics": {"degraded": True}}, False),
        ({"served_by": {"fingerprint": "v2"}}, False),
    ],
)
def test_only_who_says_so_and_is_not_degraded_is_meant(
    changed: dict[str, Any], *, own: bool
) -> None:
    assert read_page(answer(**changed), 5).is_of("tantivy", "lexical", "v1") is own


def test_without_a_mode_any_is_meant() -> None:
    assert read_page(answer(explain={"engine": "tantivy"}), 5).is_of("tantivy", "", "v1")


@pytest.mark.parametrize(
    ("changed", "note"),
    [
        ({}, ""),
        ({"explain": {**OWN, "note": "as a phrase"}}, "as a phrase"),
        ({"diagnostics": {"reason": "torn"}}, "torn"),
        ({"diagnostics": {}}, "degraded"),
    ],
)
def test_a_note_is_in_the_servers_words(changed: dict[str, Any], note: str) -> None:
    assert read_page(answer(**changed), 5).note == note
