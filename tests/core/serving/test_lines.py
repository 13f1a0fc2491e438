"""``serving.lines``: a malformed line is answered, with its id where one can be read."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.mcp_pipes import MAX_MESSAGE_BYTES, Lines, Refused, error, message_of

PARSE, INVALID = -32700, -32600
LONG = "9" * 6_000


def refusal(line: bytes, most: int) -> str:
    """Write the answer to a line; empty for a message."""
    try:
        message_of(line, most)
    except Refused as exc:
        return error(exc.given, exc.code, exc.said)
    return ""


def request(given: str, more: str = "") -> str:
    return f'{{"jsonrpc":"2.0","id":{given},"method":"ping"{more}}}'


@pytest.mark.parametrize(
    ("line", "code", "known", "said"),
    [
        ("not json", PARSE, None, "the line is not JSON: "),
        ('{"jsonrpc":"2.0","id":1,"method":', PARSE, None, "the line is not JSON: "),
        ("\ufeff" + request("1"), PARSE, 1, "the line is not JSON: "),
        (request("1", ',"params":{"a":"\\ud800"}'), PARSE, 1, "the line is not JSON: "),
        (request('"one"', f',"params":{{"a":{LONG}}}'), PARSE, "one", "number out of range"),
        (request("1", f',"params":{{"a":{"[" * 5_000}{"]" * 5_000}}}'), PARSE, None, "recursion"),
        (request('"\\ud800"'), PARSE, None, "the line is not JSON: "),
        (request(LONG), PARSE, None, "number out of range"),
        (request("NaN"), INVALID, None, "the id is neither"),
        (request("1e400"), INVALID, None, "the id is neither"),
        (request("1.5"), INVALID, None, "the id is neither"),
        (request("true"), INVALID, None, "the id is neither"),
        (request("{}"), INVALID, None, "the id is neither"),
        (request("null"), INVALID, None, "the id is neither"),
        ("[]", INVALID, None, "on a line of its own"),
        (f"[{request('1')}]", INVALID, None, "on a line of its own"),
        ('"text"', INVALID, None, "on a line of its own"),
        ("7", INVALID, None, "on a line of its own"),
        ('{"id":1,"method":"ping"}', INVALID, 1, "jsonrpc: Field required"),
        ('{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID, 1, "jsonrpc: "),
        ('{"jsonrpc":"2.0","id":1}', INVALID, 1, "method: Field required"),
        ('{"jsonrpc":"2.0","id":1,"method":7}', INVALID, 1, "method: "),
        (request("1", ',"params":[1]'), INVALID, 1, "params: Input should be"),
        ('{"jsonrpc":"2.0","method":"ping","params":[1]}', INVALID, None, "params: "),
        ('{"jsonrpc":"2.0","id":1,"result":7}', INVALID, None, "method: Field required"),
        (request("1", f',"x":"{"a" * MAX_MESSAGE_BYTES}"'), INVALID, None, "longer than 262144"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)
def test_a_malformed_line_is_answered(
    line: str, code: int, known: int | str | None, said: str
) -> None:
    answer = json.loads(refusal(line.encode(), MAX_MESSAGE_BYTES))
    assert answer.keys() == {"jsonrpc", "id", "error"}
    assert (answer["jsonrpc"], answer["id"], answer["error"]["code"]) == ("2.0", known, code)
    assert said in answer["error"]["message"]
    assert len(answer["error"]["message"]) < 200


def test_bytes_that_are_no_text_are_answered() -> None:
    answer = json.loads(refusal(request("1").encode().replace(b"ping", b"\xff"), MAX_MESSAGE_BYTES))
    assert answer["error"]["code"] == PARSE


@pytest.mark.parametrize(
    "line",
    [
        request("1"),
        request('"one"'),
        request("1", ',"params":{"a":NaN}'),
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        '{"jsonrpc":"2.0","id":1,"result":{}}',
        '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}',
        f"  {request('1')}\r",
    ],
)
def test_a_message_is_left_to_the_server(line: str) -> None:
    assert refusal(line.encode(), MAX_MESSAGE_BYTES) == ""


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5), st.integers(1, 300))
def test_lines_are_the_same_however_they_come(data: bytes, cuts: list[int], most: int) -> None:
    lines, places = Lines(most), [0, *sorted(cuts), len(data)]
    found = [line for begin, end in pairwise(places) for line in lines.fed(data[begin:end])]
    whole = [one[: most + 1] for one in data.split(b"\n")]
    assert [*found, lines.last()] == whole


def test_of_a_line_without_end_little_is_kept() -> None:
    lines = Lines(10)
    for _ in range(1_000):
        assert not list(lines.fed(b"a" * 1_000))
    assert len(lines.last()) == 11
