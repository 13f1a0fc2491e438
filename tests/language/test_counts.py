"""A number agrees with its noun: no message counts "1 queries" (harness.core.printable)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from harness.core.printable import counted, many
from tests.source import ROOT

NOUNS = (
    "answers|arms|assessors|attempts|clusters|documents|files|findings|gates|hits|judgements|labels"
    "|lines|lists|looks|messages|observations|pairs|processes|queries|requests|runs|sessions"
    "|settings|slices|steps|trials|values"
)
COUNTED = re.compile(
    rf" (?:(?:different|diverging|drawn|independent|judged|missing|mixed|more|unjudged) )?"
    rf"(?:{NOUNS})\b"
)
BOUND = re.compile(
    r"(?:\bof|\bof the|\bthan|\bthan the|at most|at least|at least the|of all|the|only|first|up to"
    r"|every) $"
)
"""Before a number that is a bound or a whole, where the plural stands for any number."""
NO_COUNT = {"arm", "allows", "asked", "lock", "name"}
"""Names of what is no number: a verb follows that is also a noun, or it is a text of several."""


def uncounted(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of f-strings in which a plural follows a number whatever it is."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        around = [str(one.value) if isinstance(one, ast.Constant) else "" for one in node.values]
        for at, one in enumerate(node.values[:-1]):
            if not isinstance(one, ast.FormattedValue) or not _is_count(one):
                continue
            before = around[at - 1] if at else ""
            if COUNTED.match(around[at + 1]) and not BOUND.search(before):
                yield one.lineno, ast.unparse(one.value) + around[at + 1]


def _is_count(one: ast.FormattedValue) -> bool:
    said = ast.unparse(one.value)
    form = "" if one.format_spec is None else ast.unparse(one.format_spec)
    shaped = re.search(r"(?:rate|percent|share|digits|interval|many|counted)\(", said)
    is_constant = said.rpartition(".")[2].isupper()
    plain = one.conversion == -1 and form in {"", "f','"}
    return plain and not (shaped or is_constant or said in NO_COUNT)


def test_no_message_counts_one_queries() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {said}"
        for path in sorted((ROOT / "harness").rglob("*.py"))
        for line, said in uncounted(path.read_text(encoding="utf-8"))
    ]
    assert found == [], "write many(count, 'query') of harness.core.printable"


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ("f'{n} queries'", True),
        ("f'about {n:,} more pairs'", True),
        ("f'{a} of {n} queries'", False),
        ("f'fewer than {n} queries'", False),
        ("f'{FEWEST} queries'", False),
        ("f'{many(n, \"query\")} were'", False),
        ("f'{x:.2f} hits'", False),
    ],
)
def test_what_counts_as_a_count(source: str, *, is_found: bool) -> None:
    assert bool([*uncounted(source)]) == is_found


@pytest.mark.parametrize(
    ("count", "one", "said"),
    [
        (1, "query", "1 query"),
        (0, "query", "0 queries"),
        (2, "independent query was", "2 independent queries were"),
        (1, "pair is", "1 pair is"),
        (3, "pair is", "3 pairs are"),
        (2, "request has", "2 requests have"),
        (4, "process", "4 processes"),
        (2, "day", "2 days"),
        (1234, "hit", "1234 hits"),
    ],
)
def test_a_number_agrees_with_its_noun(count: int, one: str, said: str) -> None:
    assert many(count, one) == said
    assert counted(count, one) == said.replace("1234", "1,234")
