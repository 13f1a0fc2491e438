"""Units of code and prose: what is known of them, their filters, and their words in two engines.

Tantivy has one field, in which each part of a unit stands as often as it weighs.
"""

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import tantivy
from numpy.typing import NDArray
from pydantic import TypeAdapter

from harness.core.formats import json_of
from harness.core.records import Scalar
from harness_engines.kept.kit import FILTERS
from harness_engines.lexical.grammar import seldom
from harness_engines.lexical.tantivy import OCCURS, Language, analyzer, begun, columns
from harness_engines.lexical.terms import Clause, Occur, sign_names, sign_term, terms, word
from harness_engines.lexical.terms import folded as folded_terms


class Mode(StrEnum):
    """The kinds of units, each ranked by itself; ``MIXED`` fuses their rankings."""

    CODE = "code"
    PROSE = "prose"
    RECORDS = "records"
    MIXED = "mixed"


class UnitTexts(NamedTuple):
    """Text of a unit by field; each has a weight of its own."""

    name: str = ""
    signature: str = ""
    doc: str = ""
    comment: str = ""
    body: str = ""


FIELDS = UnitTexts._fields


class Risk(NamedTuple):
    """What a rule of ``harness_engines.stacks.code.reading.python`` found."""

    tag: str
    category: str
    severity: int
    """1 low, 2 medium, 3 high."""
    source: str = ""
    sink: str = ""

    @property
    def flow(self) -> str:
        """``source->sink`` where one was seen to reach the other; else empty."""
        return f"{self.source}->{self.sink}" if self.source and self.sink else ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a unit beside its words."""

    type: str
    """``function``, ``method``, ``class``, ``constant``, ``module``, ``section``, ``record`` or
    ``text``."""
    symbol: str = ""
    """Bare name of what the unit defines; empty where it defines nothing."""
    full: str = ""
    """The qualified name, e.g. ``pandas.DataFrame.merge``; the bare one where no more is known."""
    exported: bool = False
    """Whether users of the package may name it: no part of its name begins with an underscore."""
    signature: str = ""
    params: tuple[str, ...] = ()
    inferred_types: tuple[str, ...] = ()
    return_type: str = ""
    uses: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    """Names under See Also, and names marked as references in prose."""
    risks: tuple[Risk, ...] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """One document, understood."""

    doc_id: str
    mode: Mode
    lang: str
    """Lower case; empty where no one can tell."""
    path: str
    """With forward slashes; the document's id where it has no path."""
    texts: UnitTexts
    facts: Facts
    lines: str = ""
    """First and last line in the file, from 1, as ``12-34``; empty where that is unknown."""

    @property
    def file(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def ext(self) -> str:
        """What follows the last dot of the file, lower-cased, without the dot; may be empty."""
        stem, dot, ext = self.file.rpartition(".")
        return ext.lower() if dot and stem else ""


LONGEST_BYTES = 200
"""Longer words are not words; data pasted into code."""
_RUN = re.compile(r"[^\W_]++(?:_++[^\W_]++)*+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@cache
def _any_run() -> re.Pattern[str]:
    return re.compile(rf"(?:{word().pattern})(?:_++(?:{word().pattern}))*+")


def parts(run: str) -> list[str]:
    """Split a name at underscores and humps: ``HTTPServer_v2`` is http, server, v2."""
    return [hump.lower() for piece in run.split("_") if piece for hump in _HUMP.split(piece)]


def words(text: str, language: Language) -> tuple[list[str], list[str]]:
    """Return the terms of ``text`` in their order, and its names, joined or with their signs."""
    in_order: list[str] = []
    form = folded_terms(text)
    wholes = [sign_term(name) for name in sign_names(form)]
    for run in _RUN.findall(form) if form.isascii() else _any_run().findall(form):
        pieces = parts(run)
        in_order.extend(term for piece in pieces for term in _term(piece, language))
        if len(pieces) > 1 and (whole := "".join(pieces)).isascii():
            wholes.extend([whole] if len(whole) <= LONGEST_BYTES else [])
    return in_order, wholes


def indexed(text: str, language: Language) -> str:
    """Write what is indexed of ``text``: its terms, then its names."""
    in_order, wholes = words(text, language)
    return " ".join([*in_order, *wholes])


@lru_cache(maxsize=1 << 16)
def _term(piece: str, language: Language) -> tuple[str, ...]:
    """Stem a word; a stop word gives none, and one that is not ASCII has the terms of any index."""
    if len(piece) > LONGEST_BYTES:
        return ()
    found = (stem for one in terms(piece) for stem in analyzer(language).analyze(one))
    return tuple(term for term in found if len(term) <= LONGEST_BYTES)


LONGEST_PATTERN = 200
SEVERITIES = ("low", "medium", "high")


class InvalidFilter(ValueError):
    """A filter is unknown, empty, or not a valid regular expression."""


Filters = Mapping[str, str]
"""What a unit must have, by the filter's name; one that is absent asks for nothing."""
NAMES = tuple(one.name for one in FILTERS)
PATTERNS: Mapping[str, Callable[[Unit], str]] = {
    "file": lambda unit: unit.file,
    "path": lambda unit: unit.path,
    "signature": lambda unit: unit.facts.signature,
}
"""Filters that look for a part of a text."""


def parse(params: Mapping[str, Scalar]) -> Filters:
    """Read filters as they stand beside a query; ``risk-tag`` and ``risk_tag`` are one."""
    found: dict[str, str] = {}
    for key, given in params.items():
        name, value = key.removeprefix("--").replace("-", "_"), str(given)
        if name not in NAMES:
            raise InvalidFilter(f"no filter {key}; there is {', '.join(NAMES)}")
        if given is None:
            continue
        if name in found:
            raise InvalidFilter(f"{key}: is given twice; filters take one value each")
        if not folded(value, name):
            raise InvalidFilter(f"{name}: is empty; leave the filter out, or name a value")
        if name == "risk" and folded(value, name) not in SEVERITIES:
            raise InvalidFilter(f"risk: is {value!r}; name {', '.join(SEVERITIES)}")
        if name in PATTERNS:
            try:
                pattern(value)
            except InvalidFilter as exc:
                raise InvalidFilter(f"{name}: {exc}") from exc
        found[name] = value
    return {name: found[name] for name in NAMES if name in found}


def pattern(value: str) -> Any:  # noqa: ANN401  an expression of RE2, or None
    """Compile what stands between slashes; None where the value is a plain part of a text."""
    if len(value) < 3 or not (value.startswith("/") and value.endswith("/")):  # noqa: PLR2004  //
        return None
    if len(value) > LONGEST_PATTERN:
        raise InvalidFilter(f"a regular expression has at most {LONGEST_PATTERN} characters")
    return _compiled(value[1:-1])


@lru_cache(maxsize=64)
def _compiled(expression: str) -> Any:  # noqa: ANN401  as above
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError) as exc:
        why = exc.args[0].decode() if isinstance(exc, re2.error) else exc.reason
        raise InvalidFilter(
            f"/{expression}/: no regular expression of RE2 ({why}); correct it, or take the "
            "slashes away. RE2 has no lookaround and no backreferences"
        ) from exc


def folded(value: str, name: str = "") -> str:
    """Bring a value to the form in which it is compared."""
    text = " ".join(value.split()).casefold()
    return text.removeprefix(".") if name == "ext" else text


def values(unit: Unit, name: str) -> frozenset[str]:
    """Return everything that a unit has of a filter that compares whole values, folded."""
    return frozenset(folded(one, name) for one in _VALUES[name](unit) if one)


def _with_last_parts(names: Iterable[str]) -> Iterable[str]:
    """Yield ``os.path.join`` as ``join`` too: who asks for either means it."""
    for name in names:
        yield from (name, name.rpartition(".")[2])


_VALUES: Mapping[str, Callable[[Unit], Iterable[str]]] = {
    "lang": lambda unit: [unit.lang],
    "ext": lambda unit: [unit.ext],
    "type": lambda unit: [unit.facts.type],
    "risk": lambda unit: SEVERITIES[: max((risk.severity for risk in unit.facts.risks), default=0)],
    "risk_tag": lambda unit: [risk.tag for risk in unit.facts.risks],
    "risk_source": lambda unit: [risk.source for risk in unit.facts.risks],
    "risk_sink": lambda unit: [risk.sink for risk in unit.facts.risks],
    "risk_category": lambda unit: [risk.category for risk in unit.facts.risks],
    "risk_flow": lambda unit: [risk.flow for risk in unit.facts.risks],
    "inferred_type": lambda unit: unit.facts.inferred_types,
    "return_type": lambda unit: [unit.facts.return_type],
    "param": lambda unit: unit.facts.params,
    "uses": lambda unit: _with_last_parts(unit.facts.uses),
    "calls": lambda unit: _with_last_parts(unit.facts.calls),
}
WHOLE = tuple(_VALUES)
"""Filters that compare whole values."""


Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IndexedUnit:
    """A unit, and its fields as the terms that both backends index."""

    unit: Unit
    terms: UnitTexts


Key = TypeVar("Key")


def rows_by(keys: Iterable[Iterable[Key]]) -> Mapping[Key, Rows]:
    """Gather the rows, ascending, that have each key."""
    rows: dict[Key, list[int]] = {}
    for at, of in enumerate(keys):
        for key in of:
            rows.setdefault(key, []).append(at)
    return {key: np.array(found, dtype=np.int64) for key, found in rows.items()}


_ENTRY = TypeAdapter(tuple[Unit, UnitTexts])


def written(entry: IndexedUnit) -> str:
    """Write an entry as JSON."""
    return json.dumps([asdict(entry.unit), entry.terms])


def entry_of(written: str) -> IndexedUnit:
    """Read an entry."""
    return IndexedUnit(*_ENTRY.validate_python(json_of(written)))


Phrase = tuple[str, ...]
_DOTTED = re.compile(r"\w[.@]\w")
BEGUN = "*"
"""At the end of a term: any term that begins so."""


@dataclass(frozen=True, slots=True)
class TermClause:
    """One clause: any of its phrases will do; a phrase of one term is that term."""

    occur: Occur
    phrases: tuple[Phrase, ...]


def wanted(clauses: Sequence[Clause], language: Language) -> tuple[TermClause, ...]:
    """Write clauses as terms; empty where they have none, or only such as must not match.

    A word of several parts such as ``read_csv`` or ``DataFrame`` asks for its parts and for its
    joined form; words in quotation marks are one phrase. With dots, as in ``2.4.1``, the parts are
    also such a phrase. A name with a sign must match, or must not, with it.
    """
    found = [one for clause in clauses if (one := _of(clause, language)).phrases]
    return tuple(found) if any(one.occur is not Occur.NOT for one in found) else ()


def terms_of(clauses: Sequence[Clause], language: Language) -> Phrase:
    """Return the terms of a query in their order, for phrases and near duplicates."""
    return tuple(
        term
        for clause in clauses
        if clause.occur is not Occur.NOT
        for typed in clause.words
        for term in words(typed, language)[0]
    )


def _of(clause: Clause, language: Language) -> TermClause:
    """Write a clause; words without spaces that must match, or must not, are a phrase."""
    runs = (clause.text,) if clause.text else clause.words
    both = [words(run, language) for run in runs]
    in_order = tuple(term for terms, _ in both for term in terms)
    if clause.begun and (start := words(clause.words[0], "none")[0]):
        return TermClause(clause.occur, ((start[-1] + BEGUN,),))
    if clause.occur is not Occur.SHOULD and clause.sign_name:
        return TermClause(clause.occur, ((sign_term(clause.sign_name),),))
    if clause.elided:
        return TermClause(clause.occur, (in_order, in_order[-1:]))
    if clause.quoted or not (clause.occur is Occur.SHOULD or clause.text.isascii()):
        return TermClause(clause.occur, (in_order,) if in_order else ())
    joined = [whole for _, wholes in both for whole in wholes]
    phrases = [(term,) for term in seldom([*in_order, *joined], str)]
    row = [in_order] if _DOTTED.search(clause.text) else []
    return TermClause(clause.occur, (*phrases, *row))


class ScoredUnit(NamedTuple):
    """A unit's row, and a score of which higher is better."""

    row: int
    score: float


def match_expression(wanted: Sequence[TermClause]) -> str:
    """Write clauses in FTS5's language, every phrase quoted; empty where there are none.

    What must match is written twice where something else may match, and counts twice in bm25; so
    the latter is written twice as well.
    """
    groups: dict[Occur, list[str]] = {occur: [] for occur in Occur}
    for one in wanted:
        phrases = [" ".join(phrase) for phrase in one.phrases]
        quoted = [f'"{of.removesuffix(BEGUN)}"{BEGUN * of.endswith(BEGUN)}' for of in phrases]
        groups[one.occur].append(f"({' OR '.join(quoted)})")
    should, must = groups[Occur.SHOULD], groups[Occur.MUST]
    asked = " OR ".join(should)
    if must:
        every = " AND ".join(must)
        asked = f"({every}) AND ({every} OR {asked} OR {asked})" if asked else every
    if groups[Occur.NOT] and asked:
        asked = f"({asked}) NOT ({' OR '.join(groups[Occur.NOT])})"
    return asked


@dataclass(frozen=True, slots=True)
class StoredWords:
    """BM25 of SQLite: it adds a term's counts over fields, each times its weight, and levels."""

    db: sqlite3.Connection
    ids: Rows
    """Key of each row in the tables."""
    weights: Mapping[str, int]

    def search(
        self, wanted: Sequence[TermClause], depth: int, allowed: Rows | None
    ) -> Sequence[ScoredUnit]:
        """Return the ``depth`` best of the ``allowed`` rows (None: all), ties by row."""
        expression = match_expression(wanted)
        if not expression or (allowed is not None and not len(allowed)):
            return []
        weigh = f"bm25({', '.join(f'{self.weights[field]}.0' for field in FIELDS)})"
        gate = "" if allowed is None else " AND rowid IN (SELECT value FROM json_each(?))"
        given = [] if allowed is None else [json.dumps(self.ids[allowed].tolist())]
        ascend = bool((np.diff(self.ids) > 0).all())
        tie = "rowid" if ascend else "(SELECT doc_id FROM unit WHERE id = search.rowid)"
        found = self.db.execute(
            f"SELECT rowid, -rank FROM search WHERE search MATCH ? AND rank MATCH ?{gate}"  # noqa: S608  no text of anybody
            f" ORDER BY rank, {tie} LIMIT ?",
            (expression, weigh, *given, depth),
        ).fetchall()
        order = np.argsort(self.ids)
        keys = np.array([row[0] for row in found], dtype=np.int64)
        rows = order[np.searchsorted(self.ids, keys, sorter=order)].tolist()
        return [ScoredUnit(row, score) for row, (_, score) in zip(rows, found, strict=True)]


FOLDER = "words"
POSITIONS = "pos"
"""Suffix of the one file of a segment that Tantivy opens without; no phrase would be found."""
ANALYZER = "terms"
WORDS_BY = f"tantivy {version('tantivy')}"
HEAP_BYTES = 128_000_000


def build_tantivy(folder: Path, texts: Sequence[UnitTexts], weights: Mapping[str, int]) -> None:
    """Index the terms of units by Tantivy."""
    (folder / FOLDER).mkdir()
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("id", indexed=True, fast=True)
    builder.add_text_field("text", tokenizer_name=ANALYZER)
    schema = builder.build()
    index = tantivy.Index(schema, path=str(folder / FOLDER))
    index.register_tokenizer(ANALYZER, _at_spaces())
    writer = index.writer(HEAP_BYTES, 1)
    for at, one in enumerate(texts):
        said = [text for field in FIELDS for text in [getattr(one, field)] * weights[field]]
        writer.add_document(tantivy.Document.from_dict({"id": at, "text": said}, schema))
    writer.commit()
    writer.wait_merging_threads()


def open_tantivy(folder: Path) -> "OpenTantivy":
    """Open what was built."""
    index = tantivy.Index.open(str(folder / FOLDER))
    for segment in (folder / FOLDER).glob("*.idx"):
        segment.with_suffix(f".{POSITIONS}").stat()
    index.register_tokenizer(ANALYZER, _at_spaces())
    return OpenTantivy(index.schema, index.searcher())


def _at_spaces() -> tantivy.TextAnalyzer:
    """Split at spaces; what is indexed are terms already."""
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()


@dataclass(frozen=True, slots=True)
class OpenTantivy:
    schema: tantivy.Schema
    searcher: tantivy.Searcher

    def search(
        self, wanted: Sequence[TermClause], depth: int, allowed: Rows | None
    ) -> Sequence[ScoredUnit]:
        """Return the ``depth`` best of the ``allowed`` rows (None: all), ties by row."""
        if not wanted or (allowed is not None and not len(allowed)):
            return []
        should, must = tantivy.Occur.Should, tantivy.Occur.Must
        asked = tantivy.Query.boolean_query([
            (
                OCCURS[one.occur],
                tantivy.Query.boolean_query([(should, self._match(of)) for of in one.phrases]),
            )
            for one in wanted
        ])
        if allowed is not None:
            gate = tantivy.Query.term_set_query(self.schema, "id", allowed.tolist())
            none = tantivy.Query.const_score_query(gate, 0.0)
            asked = tantivy.Query.boolean_query([(must, asked), (must, none)])
        return list(
            map(ScoredUnit, *columns(self.searcher, asked, depth, schema=self.schema, ids="id"))
        )

    def _match(self, phrase: Phrase) -> tantivy.Query:
        if phrase[-1].endswith(BEGUN):
            return begun(self.schema, "text", phrase[-1].removesuffix(BEGUN))
        if len(phrase) == 1:
            return tantivy.Query.term_query(self.schema, "text", phrase[0], "freq")
        return tantivy.Query.phrase_query(self.schema, "text", list(phrase))


WordsBackend = StoredWords | OpenTantivy
"""An open index of words."""
