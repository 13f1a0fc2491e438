"""Queries: operators, signs and parentheses read into one tree, and the tree written for engines.

NOT binds closest, then AND, then words side by side, then OR. A sign, ``+`` or ``-``, holds for all
within its parentheses. An operator that has nothing to bind, as NOT at the end, is a word.
"""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any, NamedTuple, TypeVar
from unicodedata import combining, normalize

from harness_engines.lexical.terms import Clause, Occur, normalise, words_in

MOST_WORDS = 1_000
"""Words beyond these are not searched for; a query is typed or pasted, not a book."""

MOST_REPEATS = 8
"""How often the same clause counts. The time that FTS5 takes grows with the square of repeats."""

DEEPEST = 20
"""Parentheses within parentheses; deeper ones are text."""

_PIECE = re.compile(r'(?P<sign>[+-])?(?:"(?P<phrase>[^"]*)"|(?P<plain>[^\s"]+))')
_PLAIN = re.compile(r"[^\W_]++(?: [^\W_]++)*+")
"""Words alone; most of what is typed, and quickly taken apart."""
_TEXT = re.compile(r"-[^\W_].*|(?:0x[0-9a-fA-F]+|[.$€£]?\d[\d.,:]*(?:[eE][-+]?\d+|°[CF])?)\W*")
"""After a minus: an option such as ``--no-verify``, or a number; no word that is refused."""
_AFTER = ").,;:!?"
"""What may stand behind a word: parentheses, and marks behind those."""
_STRUCTURE = re.compile(r'"|(?:^|[\s(])[-+]|\b(?:AND|OR|NOT)\b')
"""What makes a query more than words side by side."""
_MARKS = re.compile(r'[-+"]|AND|OR|NOT')
_OPERATORS = frozenset({"AND", "OR", "NOT"})
_OCCURS = {"+": Occur.MUST, "-": Occur.NOT, "AND": Occur.MUST, "NOT": Occur.NOT}
_SIGNS = {Occur.SHOULD: "", Occur.MUST: "+", Occur.NOT: "-"}
Item = TypeVar("Item")
Mask = TypeVar("Mask", bound=Any)


@dataclass(frozen=True, slots=True)
class ClauseGroup:
    """Clauses and groups: all that must match, any of the rest where none must, none refused.

    A group that only refuses matches everything else.
    """

    occur: Occur
    parts: "tuple[Node, ...]"
    either: bool = False
    """Whether an OR stands between the parts."""

    def of(self, occur: Occur) -> "list[Node]":
        """Return the parts that may, must or must not match."""
        return [part for part in self.parts if part.occur is occur]

    @property
    def refuses(self) -> bool:
        """Whether nothing is looked for, and something is refused."""
        return bool(self.parts) and all(one.occur is Occur.NOT for one in leaves(self))


Node = Clause | ClauseGroup


class _Piece(NamedTuple):
    """A parenthesis, an operator or a word of a query."""

    kind: str
    """``(``, ``)``, an operator, or empty for words."""
    sign: str
    text: str = ""
    quoted: bool = False


def words_alone(typed: str) -> list[str]:
    """Return the words of normalised text where it has nothing else, each a clause; else none."""
    if _PLAIN.fullmatch(typed) and _OPERATORS.isdisjoint(alone := typed.split(" ")):
        return alone[:MOST_WORDS]
    return []


def parse(text: str) -> ClauseGroup:
    """Read a query; text without a letter or digit gives a group without parts."""
    typed = normalise(text)
    if alone := words_alone(typed):
        few = seldom(alone, _folded_typed)
        return ClauseGroup(Occur.SHOULD, tuple(Clause(Occur.SHOULD, (w,), False, w) for w in few))  # noqa: FBT003
    if _STRUCTURE.search(typed):
        pieces = _signs_read(_bound(list(_pieces(typed))))
        found = _group(_clauses_read(pieces), Occur.SHOULD)
    else:
        read = _clauses_read(_Piece("", "", one) for one in typed.split(" "))
        found = ClauseGroup(Occur.SHOULD, tuple([clause for _, clause in read if clause]))
    return replace(found, parts=tuple(seldom(found.parts, _alike)))


def _clauses_read(pieces: Iterable[_Piece]) -> Iterator[tuple[_Piece, Clause | None]]:
    """Read the words of pieces, up to ``MOST_WORDS``; parentheses and operators have none."""
    words = 0
    for piece in pieces:
        if piece.kind:
            yield piece, None
        elif words == MOST_WORDS:
            return
        elif clause := _clause(piece.text, quoted=piece.quoted, before=words):
            yield piece, clause
            words += len(clause.words)


def _clause(text: str, *, quoted: bool, before: int) -> Clause | None:
    """Read a piece behind so many words; None where it has no word."""
    if text.isascii() and text.isalnum():
        return Clause(Occur.SHOULD, (text,), quoted, text)
    spans = words_in(text)
    kept = spans[: MOST_WORDS - before]
    if not kept:
        return None
    bare = text if len(kept) == len(spans) else text[: kept[-1].end()]
    return Clause(Occur.SHOULD, tuple([one[0] for one in kept]), quoted, bare)


def _group(pieces: Iterator[tuple[_Piece, Clause | None]], occur: Occur) -> ClauseGroup:
    """Read a group; a part with a sign, and no operator before it, holds for all alternatives."""
    alternatives: list[list[tuple[Node, bool]]] = [[]]
    operator = ""
    for piece, clause in pieces:
        now = alternatives[-1]
        how = _OCCURS.get(piece.sign) or _OCCURS.get(operator, Occur.SHOULD)
        if piece.kind == ")":
            break
        if piece.kind == "OR":
            alternatives.append([])
            operator = ""
        elif piece.kind in _OPERATORS:
            if piece.kind == "AND" and now:
                last, _ = now[-1]
                must = replace(last, occur=Occur.MUST) if last.occur is Occur.SHOULD else last
                now[-1] = (must, False)
            operator = piece.kind
        else:
            node = replace(clause, occur=how) if clause else _group(pieces, how)
            if isinstance(node, Clause) or node.parts:
                now.append((node, bool(piece.sign) and not operator))
                operator = ""
    return _without_needless_groups(alternatives, occur)


def _without_needless_groups(
    alternatives: list[list[tuple[Node, bool]]], occur: Occur
) -> ClauseGroup:
    """Return a group without inner groups that mean the same as their parts."""
    every = [part for alternative in alternatives for part in alternative]
    chosen = [[node for node, signed in one if not signed] for one in alternatives]
    chosen = [one for one in chosen if one]
    either = len(alternatives) > 1
    flat = all(node.occur is Occur.SHOULD for one in chosen for node in one)
    if len(chosen) < 2 or flat:  # noqa: PLR2004  OR stands between two
        parts = [node for node, _ in every]
    else:
        parts = [
            one[0] if len(one) == 1 and one[0].occur is Occur.SHOULD
            else ClauseGroup(Occur.SHOULD, tuple(one))
            for one in chosen
        ]  # fmt: skip
        parts += [node for node, signed in every if signed]
    simple = (inner for part in parts for inner in _simplified(part, either=either))
    return ClauseGroup(occur, tuple(simple), either)


def _pieces(typed: str) -> Iterator[_Piece]:
    """Split a query; parentheses count where it has an operator or a sign."""
    others = [one for one in typed.split() if one.strip("()") not in _OPERATORS]
    shouts = not others or (typed == typed.upper() and any(one != one.lower() for one in others))
    operators = frozenset() if shouts else _OPERATORS
    grouped = "(" in typed and (
        re.search(r"(?:^|[\s(])[+-][\w(\"]", typed)
        or any(one.strip("()") in operators for one in typed.split())
    )
    depth = 0
    for found in _PIECE.finditer(typed):
        sign, plain = found["sign"] or "", found["plain"]
        if plain is None:
            yield _Piece("", sign, found["phrase"], quoted=True)
            continue
        while grouped and plain.startswith("(") and depth < DEEPEST:
            yield _Piece("(", sign)
            depth += 1
            sign, plain = "", plain[1:]
            if plain[:1] in {"+", "-"}:
                sign, plain = plain[0], plain[1:]
        closing = 0
        if grouped and ")" in (tail := plain[len(body := plain.rstrip(_AFTER)) :]):
            own = min(tail.count(")"), max(0, body.count("(") - body.count(")")))
            closing = min(depth, tail.count(")") - own)
            plain = body + ")" * own
        yield _Piece(plain if plain in operators and not sign else "", sign, plain)
        for _ in range(closing):
            yield _Piece(")", "")
            depth -= 1


def _bound(pieces: list[_Piece]) -> list[_Piece]:
    """Take operators as words where what they bind is missing; NOT twice says nothing."""
    read: list[_Piece] = []
    for piece in pieces:
        if read and piece.kind == read[-1].kind == "NOT":
            read.pop()
        else:
            read.append(piece)
    loose: set[int] = set()
    for backward, operands in ((True, {"word", "(", "NOT"}), (False, {"word", ")"})):
        beside = ""
        for at in sorted(range(len(read)), reverse=backward):
            piece = read[at]
            kind = piece.kind or ("word" if words_in(piece.text) else "")
            binary = kind in {"AND", "OR"}
            if (binary or (backward and kind == "NOT")) and beside not in operands:
                loose.add(at)
            beside = "loose" if at in loose else kind or beside
    return [one._replace(kind="") if at in loose else one for at, one in enumerate(read)]


def _signs_read(pieces: list[_Piece]) -> list[_Piece]:
    """Take a minus before a number or an option as text, where nothing else is refused."""
    read: list[_Piece] = []
    for piece in pieces:
        if piece.sign == "-" and not piece.quoted and _TEXT.fullmatch(piece.text):
            read.append(piece._replace(sign="", text=f"-{piece.text}"))
            continue
        is_refusal = piece.sign == "-" and (piece.kind or words_in(piece.text))
        if is_refusal or piece.kind == "NOT":
            return pieces
        read.append(piece)
    return read


def _simplified(node: Node, *, either: bool) -> tuple[Node, ...]:
    """Return parts that mean the same, where they stand, as the group around them."""
    if isinstance(node, Clause):
        return (node,)
    kinds, occur = {part.occur for part in node.parts}, node.occur
    if kinds == {Occur.NOT} == {occur}:
        any_of = tuple(replace(part, occur=Occur.SHOULD) for part in node.parts)
        return _simplified(ClauseGroup(Occur.MUST, any_of, either=True), either=either)
    alone = len(node.parts) == 1 and kinds != {Occur.NOT}
    same = node.either if occur is Occur.NOT else node.either == either
    if alone or (kinds == {Occur.SHOULD} and occur is not Occur.MUST and same):
        parts = tuple(replace(part, occur=occur) for part in node.parts)
    elif occur is Occur.MUST and Occur.SHOULD not in kinds:
        parts = node.parts
    else:
        return (node,)
    return tuple(inner for part in parts for inner in _simplified(part, either=either))


def seldom(many: Sequence[Item], key: Callable[[Item], Hashable]) -> Sequence[Item]:
    """Leave out what has come ``MOST_REPEATS`` times already, by its key."""
    if len(many) <= MOST_REPEATS:
        return many
    times: Counter[Hashable] = Counter()
    kept = []
    for one in many:
        times[alike := key(one)] += 1
        if times[alike] <= MOST_REPEATS:
            kept.append(one)
    return kept


def _alike(node: Node) -> Hashable:
    if isinstance(node, ClauseGroup):
        return node.occur, tuple(map(_alike, node.parts))
    return node.occur, node.quoted, node.begun, tuple(map(_folded_typed, node.words))


def _folded_typed(typed: str) -> str:
    """Write a word without case and accents, as an index may hold it."""
    if typed.isascii():
        return typed.casefold()
    return "".join(one for one in normalize("NFKD", typed).casefold() if not combining(one))


def leaves(tree: ClauseGroup, around: Occur = Occur.MUST) -> Iterator[Clause]:
    """Yield the clauses of a tree, each as it counts for the whole.

    A clause must match where it and all around it must, and is refused where something around it
    is, but for what is refused twice.
    """
    for part in tree.parts:
        occur = part.occur
        if around is Occur.NOT:
            occur = Occur.SHOULD if occur is Occur.NOT else Occur.NOT
        elif around is Occur.SHOULD and occur is Occur.MUST:
            occur = Occur.SHOULD
        if isinstance(part, Clause):
            yield part if occur is part.occur else replace(part, occur=occur)
        else:
            yield from leaves(part, occur)


def exact_clauses(text: str) -> tuple[Clause, ...]:
    """Return the clauses of a query without its parentheses, each as it counts for the whole."""
    return tuple(leaves(parse(text)))


def refused(text: str) -> tuple[str, ...]:
    """Return the words and phrases that a query refuses, as typed."""
    if "-" not in text and "NOT" not in text:
        return ()
    return tuple(one.text for one in exact_clauses(text) if one.occur is Occur.NOT)


def note_refusals(text: str) -> str:
    """Write as a note what a query refuses, and which beginning of a word is read as words."""
    said = [f"without {one}" for one in refused(text)] if _STRUCTURE.search(text) else []
    begun = [one for one in exact_clauses(text) if one.text.endswith("*")] if "*" in text else []
    said += [f"{one.text} read as words" for one in begun if not (one.quoted or one.begun)]
    return ", ".join(said)


def note_nothing(text: str, *, has_stop_words: bool = False) -> str:
    """Write why nothing of a query can be looked for, where an index may leave out stop words."""
    only = has_stop_words and exact_clauses(text)
    return "only stop words, which this index leaves out" if only else "no word to search for"


def refuses(text: str) -> bool:
    """Return whether a query only says what must not be there."""
    return ("-" in text or "NOT" in text) and parse(text).refuses


def positive(text: str) -> str:
    """Write the text that is looked for, without operators and what must not be there."""
    found = parse(text)
    if all(isinstance(p, Clause) and p.occur is Occur.SHOULD and not p.quoted for p in found.parts):
        return normalise(text)
    return " ".join(one.text for one in leaves(found) if one.occur is not Occur.NOT)


def held(text: str, *, phrases: bool = True) -> ClauseGroup:
    """Return what a query demands of every hit, whatever finds it; no parts where nothing.

    That is what must and must not be there, all alternatives where one of them is more than words,
    and phrases that stand beside no OR.
    """
    tree = parse(text) if _MARKS.search(text) else ClauseGroup(Occur.SHOULD, ())
    kept = [part for part in tree.parts if part.occur is not Occur.SHOULD]
    may = tree.of(Occur.SHOULD)
    if not tree.of(Occur.MUST) and not all(map(_is_optional, may)):
        kept.append(ClauseGroup(Occur.MUST, tuple(may), tree.either))
    elif phrases and not tree.either:
        kept += [
            replace(one, occur=Occur.MUST) for one in may if isinstance(one, Clause) and one.quoted
        ]
    return ClauseGroup(Occur.SHOULD, tuple(kept))


def _is_optional(node: Node) -> bool:
    """Return whether any word of a part will do."""
    if isinstance(node, Clause):
        return True
    return all(part.occur is Occur.SHOULD and _is_optional(part) for part in node.parts)


def signed(text: str) -> str:
    """Write only what a query demands with signs and operators; ``parse`` reads it back."""
    return written(held(text, phrases=False))


def binding(text: str) -> str:
    """Write what holds for every hit, whatever finds it; empty where words may match or not.

    That is what must and what must not be there, and phrases where nothing else is looked for.
    """
    found = exact_clauses(text) if '"' in text else ()
    looked_for = [one for one in found if one.occur is not Occur.NOT]
    if looked_for and all(clause.quoted for clause in looked_for):
        return text
    return signed(text)


def written(tree: ClauseGroup) -> str:
    """Write a tree as text with signs and parentheses."""
    said = []
    for part in tree.parts:
        if isinstance(part, ClauseGroup):
            inner = f"({written(part)})"
        else:
            inner = f'"{part.text}"' if part.quoted else part.text
        said.append(_SIGNS[part.occur] + inner)
    return " ".join(said)


def mask(tree: Node, of: Callable[[Clause], Mask], every: Mask) -> Mask:
    """Compute of which documents a tree holds from masks of its clauses; ``every`` is all true."""
    if isinstance(tree, Clause):
        return of(tree)
    may, must, never = (
        [mask(part, of, every) for part in tree.of(occur)]
        for occur in (Occur.SHOULD, Occur.MUST, Occur.NOT)
    )
    found = reduce(and_, must, every)
    if may and not must:
        found = reduce(or_, may)
    return reduce(and_, (every ^ one for one in never), found)


class Selected(NamedTuple):
    """A tree in the language of an engine."""

    expression: str
    """Empty where no clause has anything that an index keeps."""
    complement: bool = False
    """Whether what the expression finds is what the tree refuses."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine writes a tree."""

    both: str
    either: str
    without: str
    """With ``{found}`` and ``{never}``."""
    weigh: int = 0
    """How often a part that may match is written beside parts that must, so that it counts alike;
    0 where it does not score."""

    def select(self, tree: ClauseGroup, one: Callable[[Clause], str]) -> Selected:
        """Write a tree, each clause by ``one``, which may leave a clause out by an empty text."""
        parts = {occur: self._parts(tree.of(occur), one) for occur in Occur}
        must, should, never = (parts[occur] for occur in (Occur.MUST, Occur.SHOULD, Occur.NOT))
        required = [p.expression for p in must if not p.complement]
        required += [p.expression for p in never if p.complement]
        refuse = [p.expression for p in must if p.complement]
        refuse += [p.expression for p in never if not p.complement]
        may = [p.expression for p in should if not p.complement]
        but = [p.expression for p in should if p.complement]
        found = self.both.join(required)
        if required and may and self.weigh:
            once = f"({found})" if len(required) > 1 else found
            beside = self.either.join([once, *[self.either.join(may)] * self.weigh])
            found = f"({found}){self.both}({beside})"
        elif but and not must:
            refuse.append(f"({self._lacking(self.both.join(but), may)})")
        elif not must:
            either = self.either.join(may)
            found = f"({either}){self.both}{found}" if found and either else found or either
        if found:
            return Selected(self._lacking(found, refuse))
        return Selected(self.either.join(refuse), bool(refuse))

    def _parts(self, nodes: Iterable[Node], one: Callable[[Clause], str]) -> list[Selected]:
        found = []
        for node in nodes:
            if isinstance(node, Clause):
                found.append(Selected(one(node)))
            else:
                inner = self.select(node, one)
                found.append(inner._replace(expression=f"({inner.expression})"))
        return [part for part in found if part.expression not in {"", "()"}]

    def _lacking(self, found: str, never: Sequence[str]) -> str:
        refuse = self.either.join(never)
        return self.without.format(found=found, never=refuse) if refuse else found


FTS5 = Dialect(" AND ", " OR ", "({found}) NOT ({never})", weigh=2)
"""What must match is written twice, and bm25 counts it twice; so the rest is written twice too."""
FTS5_UNRANKED = Dialect(" AND ", " OR ", "({found}) NOT ({never})")
