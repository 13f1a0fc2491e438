"""Units of code and prose: their words, their filters, and all of an index in memory."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache, lru_cache, partial, reduce
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.core.records import Scalar
from harness_engines.kept.kit import FILTERS
from harness_engines.lexical.tantivy import Language, analyzer
from harness_engines.lexical.terms import folded as folded_terms
from harness_engines.lexical.terms import sign_names, sign_term, terms, word

SEPARATOR = "->"
"""Between the source and the sink of a flow."""


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
        return f"{self.source}{SEPARATOR}{self.sink}" if self.source and self.sink else ""


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


def passes(unit: Unit, given: Filters) -> bool:
    """Return whether a unit has all that is requested; the exact filter, which always runs."""
    for name, value in given.items():
        text = PATTERNS.get(name)
        if text is None:
            if folded(value, name) not in values(unit, name):
                return False
        elif expression := pattern(value):
            if not expression.search(text(unit)):
                return False
        elif folded(value) not in folded(text(unit)):
            return False
    return True


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


SIZE = 3
_TOO_CLEVER = re.compile(r"[\\|()\[\]{}]")
_LITERAL = re.compile(r"[^.^$*+?]+")
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


def written(entry: IndexedUnit) -> str:
    """Write an entry as JSON."""
    return json.dumps([asdict(entry.unit), entry.terms])


def entry_of(told: Any) -> IndexedUnit:  # noqa: ANN401  JSON that ``written`` wrote
    """Read an entry."""
    unit, terms = told
    facts: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in unit["facts"].items()
    }
    facts["risks"] = tuple(Risk(*risk) for risk in facts["risks"])
    read = {"mode": Mode(unit["mode"]), "texts": UnitTexts(*unit["texts"]), "facts": Facts(**facts)}
    return IndexedUnit(Unit(**{**unit, **read}), UnitTexts(*terms))


class Chargrams:
    """Texts by the runs of three characters that stand in them, after folding."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._rows = rows_by(_grams(folded(text)) for text in texts)

    def narrowed(self, value: str) -> Rows | None:
        """Return the rows, ascending, that may match a filter's value; None where all may."""
        wanted = set[str]().union(*(_grams(folded(run)) for run in literals(value)))
        if not wanted:
            return None
        nothing = np.zeros(0, dtype=np.int64)
        lists = sorted((self._rows.get(gram, nothing) for gram in wanted), key=len)
        return reduce(partial(np.intersect1d, assume_unique=True), lists)


def literals(value: str) -> list[str]:
    """Find runs of characters that stand in every text a filter's value matches.

    Of a regular expression only what needs no understanding is taken. One with groups, classes,
    escapes, counts or choices gives nothing, and a character before ``?`` or ``*`` may be absent.
    """
    if pattern(value) is None:
        return [value]
    inner = value[1:-1]
    if _TOO_CLEVER.search(inner):
        return []
    found: list[str] = []
    for run in _LITERAL.finditer(inner):
        optional = inner[run.end() : run.end() + 1] in {"?", "*"}
        found.append(run[0][:-1] if optional else run[0])
    return found


def _grams(text: str) -> set[str]:
    return {text[at : at + SIZE] for at in range(len(text) - SIZE + 1)}
