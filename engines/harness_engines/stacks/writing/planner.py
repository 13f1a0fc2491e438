"""From what a writer typed to at most four FTS5 queries.

Specification 001, "Agent Query Planner". Every word stands in quotation marks, so nothing typed is
taken for syntax of FTS5.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum

from harness_engines.lexical.grammar import (
    FTS5_UNRANKED,
    MOST_WORDS,
    ClauseGroup,
    Node,
    held,
    parse,
    positive,
)
from harness_engines.lexical.terms import Clause, Occur, alternatives, spelled

MOST_TOKENS = 8
MOST_QUERIES = 4

Frequency = Callable[[str], int]
"""How many chunks an FTS5 query finds."""


class PlannedKind(StrEnum):
    """What a planned query asks for, in the order in which queries are planned."""

    TEXT = "text"
    """Everything that was typed, its operators and phrases too."""
    PHRASE = "phrase"
    """The tokens next to each other."""
    STRONGEST = "strongest"
    """The token that the fewest chunks have."""
    ANY = "any"
    """Any of the tokens."""


class Choice(StrEnum):
    """Which eight words of a longer text are looked for."""

    FIRST = "first"
    RAREST = "rarest"
    """Those that the fewest chunks have, but some."""
    ALL = "all"
    """Every word, whatever their number."""


def plan(
    text: str,
    kinds: Sequence[PlannedKind],
    frequency: Frequency,
    context: str = "",
    choice: Choice = Choice.FIRST,
) -> tuple[str, ...]:
    """Plan queries of the given kinds in FTS5's language, none twice; no word gives no query.

    The last three kinds are planned from two tokens on: of one token all are the same query.
    Words of ``context``, what the writer is doing, only widen ``ANY``, so they never narrow what
    the text asks for. What must or must not be there, and phrases, hold in each query. A text of
    refusals alone gives no query: ``refused`` says what is to be left out.
    """
    typed = typed_query(text)
    tokens = tokens_of(positive(text), choice, frequency)
    if not typed or not tokens:
        return ()
    constrained, near = constraint(text), tokens
    if context:
        more = dict.fromkeys([*tokens, *words_of(context)])
        near = tuple(more)[: max(MOST_TOKENS, len(tokens))]
    made = {
        PlannedKind.TEXT: lambda: typed,
        PlannedKind.PHRASE: lambda: quoted(" ".join(tokens)),
        PlannedKind.STRONGEST: lambda: quoted(strongest(tokens, frequency)),
        PlannedKind.ANY: lambda: " OR ".join(map(quoted, near)),
    }
    wanted = [
        kind
        for kind in PlannedKind
        if kind in kinds and (kind is PlannedKind.TEXT or len(near) > 1)
    ]
    planned = [
        made[kind]() if kind is PlannedKind.TEXT else constrained(made[kind]())
        for kind in wanted or [PlannedKind.TEXT]
    ]
    return tuple(dict.fromkeys(planned))[:MOST_QUERIES]


def words_of(text: str) -> tuple[str, ...]:
    """Return the different terms, lower-cased, in their order."""
    return tuple(dict.fromkeys(spelled(text).split()))


def tokens_of(text: str, choice: Choice, frequency: Frequency) -> tuple[str, ...]:
    """Choose words, in the order of the text; at most eight, but for ``ALL``."""
    words = words_of(text)
    if choice is Choice.ALL:
        return words[:MOST_WORDS]
    if choice is Choice.FIRST or len(words) <= MOST_TOKENS:
        return words[:MOST_TOKENS]
    found = {word: frequency(quoted(word)) for word in words[:MOST_WORDS]}
    by_rarity = sorted(found, key=lambda word: (not found[word], found[word]))
    kept = frozenset(by_rarity[:MOST_TOKENS])
    return tuple(word for word in words if word in kept)


def strongest(tokens: Sequence[str], frequency: Frequency) -> str:
    """Choose the token that the fewest chunks have, but some; the first of equal ones."""
    found = {token: frequency(quoted(token)) for token in tokens}
    present = [token for token in tokens if found[token]]
    return min(present or tokens, key=lambda token: found[token])


def refused(text: str) -> str:
    """Write what no chunk may have where all others are meant; empty where words are meant."""
    expression, complement = FTS5_UNRANKED.select(_together(parse(text)), _each)
    return expression if complement else ""


def constraint(text: str) -> Callable[[str], str]:
    """Make what adds to any query the constraints of a text."""
    demanded, complement = FTS5_UNRANKED.select(held(text), _each)
    if not demanded:
        return lambda query: query
    by = "NOT" if complement else "AND"
    return lambda query: f"({query}) {by} ({demanded})"


def typed_query(text: str) -> str:
    """Write what was typed: words together, or any of them where OR stands between them."""
    return FTS5_UNRANKED.select(_together(parse(text)), _each).expression


def _together(tree: ClauseGroup) -> ClauseGroup:
    """Return a tree in which words must match that no OR stands between."""

    def demanded(node: Node) -> Node:
        inner = node if isinstance(node, Clause) else _together(node)
        must = inner.occur is Occur.SHOULD and not tree.either
        return replace(inner, occur=Occur.MUST) if must else inner

    return replace(tree, parts=tuple(map(demanded, tree.parts)))


def quoted(words: str) -> str:
    """Write words, none of which has a quotation mark, as one string of FTS5."""
    return f'"{words}"'


def _each(clause: Clause) -> str:
    """Write a clause as phrases; empty where its words hold nothing that an index keeps."""
    rows = [quoted(" ".join(row)) + "*" * clause.begun for row in alternatives(clause)]
    return f"({' OR '.join(rows)})" if len(rows) > 1 else "".join(rows)
