"""The English of messages, pages and docstrings, and what they count."""

import ast
from collections.abc import Iterator

import pytest

from harness.core.printable import counted, many
from tests.language.gathered import Text, everything, findings, strings

EXEMPT = {
    "docs/decisions/": "records stay as they were written; a new record replaces an old one",
    "docs/reference.md": "made from strings that are gathered in their modules",
}
"""Pages and folders that the rules leave out, each with its reason."""


@pytest.mark.slow
def test_readers_see_plain_english() -> None:
    texts = [one for one in everything() if not one.file.startswith(tuple(EXEMPT))]
    wrong = [str(one) for text in texts for one in findings(text)]
    assert not wrong, "\n".join(wrong)


def _hints(texts: Iterator[Text]) -> list[tuple[int, str]]:
    return [(one.text.line, one.hint) for text in texts for one in findings(text)]


def test_a_banned_phrase_in_a_message_is_found_with_its_line_and_hint() -> None:
    tree = ast.parse('x = 1\nraise ValueError(f"{x}: there is no such file")\n')
    ((line, hint),) = _hints(strings("a.py", tree))
    assert line == 2
    assert hint == ("'there is no' is banned. Write: missing, absent, or name what is missing")


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
