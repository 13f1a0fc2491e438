"""The English of messages, pages and docstrings, and what they count."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from harness.core.printable import counted, many
from tests.language.gathered import Text, docstrings, everything, page, strings, template
from tests.language.rules import Finding, findings
from tests.source import ROOT

EXEMPT = {
    "docs/decisions/": "records stay as they were written; a new record replaces an old one",
    "docs/reference.md": "made from strings that are gathered in their modules",
}
"""Pages and folders that the rules leave out, each with its reason."""


@cache
def broken() -> tuple[Finding, ...]:
    """List what breaks a rule, in all that a reader sees."""
    return tuple(one for text in everything() for one in findings(text))


@pytest.mark.slow
def test_readers_see_plain_english() -> None:
    wrong = [str(one) for one in broken() if not one.text.file.startswith(tuple(EXEMPT))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("place", EXEMPT)
def test_what_is_left_out_still_breaks_a_rule(place: str) -> None:
    assert any(one.text.file.startswith(place) for one in broken())


@pytest.mark.slow
def test_each_kind_of_text_is_gathered() -> None:
    files = {text.file for text in everything()}
    assert {
        "README.md",
        "docs/method.md",
        "harness/cli/inspect.py",
        "harness/core/errors.py",
        "harness/report/templates/page.html.j2",
    } <= files


def _hints(texts: Iterator[Text]) -> list[tuple[int, str]]:
    return [(one.text.line, one.hint) for text in texts for one in findings(text)]


def test_a_banned_phrase_in_a_message_is_found_with_its_line_and_hint() -> None:
    tree = ast.parse('x = 1\nraise ValueError(f"{x}: there is no such file")\n')
    ((line, hint),) = _hints(strings("a.py", tree))
    assert line == 2
    assert hint == ("'there is no' is banned. Write: missing, absent, or name what is missing")


def test_code_and_docstrings_are_no_messages() -> None:
    tree = ast.parse('"""Nobody is here."""\nx = "SELECT nobody FROM y WHERE z"\n')
    assert not _hints(strings("a.py", tree))


def test_docstrings_of_public_names_are_read_and_private_ones_are_not() -> None:
    tree = ast.parse(
        '"""A module."""\n'
        'class Kept:\n    """Kept.\n\n    Raises:\n        Lost: nobody is here.\n    """\n'
        '    name: str\n    """Mend ``nobody``."""\n'
        'def _own() -> None:\n    """Nobody."""\n'
    )
    found = _hints(docstrings("a.py", tree))
    assert [(line, hint.split()[0]) for line, hint in found] == [(3, "'nobody'"), (9, "'Mend'")]


@pytest.mark.parametrize("length", [30, 31])
def test_a_sentence_has_thirty_words_at_most(length: int) -> None:
    text = f"# Head\n\nIt starts. {'Word ' * length}`code of one word`\n\nAnd it ends.\n"
    hints = _hints(page("a.md", text.replace(" `", "`" if length == 30 else " `")))
    assert [hint.partition(",")[0] for _, hint in hints] == ([] if length == 30 else ["32 words"])


def test_code_of_a_page_is_not_read() -> None:
    text = "Run it:\n\n    echo nobody was asked\n\n```\nnobody\n```\n\nOr `nobody`.\n"
    assert not _hints(page("a.md", text))


def test_cells_and_items_are_texts_of_their_own() -> None:
    text = "| one | two |\n| --- | --- |\n| a word | nobody knows |\n\n* an item\n* mend it\n"
    found = _hints(page("a.md", text))
    assert [(line, hint.split()[0]) for line, hint in found] == [(3, "'nobody'"), (6, "'mend'")]


def test_a_template_is_read_between_its_tags() -> None:
    text = "<style>p { nobody }</style>\n<p>It <b>is no</b> {{ x }}.</p>\n{% if nobody is x %}\n"
    assert [line for line, _ in _hints(template("a.html.j2", text))] == [2]


@pytest.mark.slow
def test_help_of_commands_is_gathered() -> None:
    texts = [text for text in everything() if text.file == "harness/cli/inspect.py"]
    assert any(text.words.startswith("Each hit has its rank") for text in texts)


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
