"""The filters of code search, ANDed; a unit passes or it does not (section "Filters").

A filter names one value. Names, types and paths are compared without regard to case, as people type
them. ``file``, ``path`` and ``signature`` ask for a part of the text, or for a regular expression
between slashes (``/^test_.*py$/``), which does regard case. RE2 matches it, in a time that grows
with the text alone, so no expression holds a server up; it has no lookaround and no backreferences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Protocol

from engines.stacks.code.unit import Unit
from harness.core.records import Scalar

LONGEST_PATTERN = 200
SEVERITIES = ("low", "medium", "high")


class Expression(Protocol):
    """A compiled regular expression."""

    def search(self, text: str, /) -> object | None:
        """Give something where the text has a match."""
        ...


class InvalidFilter(ValueError):
    """A filter is unknown, empty, or not a valid regular expression."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What a unit must have; None asks for nothing."""

    lang: str | None = None
    ext: str | None = None
    file: str | None = None
    path: str | None = None
    type: str | None = None
    signature: str | None = None
    risk: str | None = None
    """``low``, ``medium`` or ``high``: at least so severe."""
    risk_tag: str | None = None
    risk_source: str | None = None
    risk_sink: str | None = None
    risk_category: str | None = None
    risk_flow: str | None = None
    inferred_type: str | None = None
    return_type: str | None = None
    param: str | None = None
    uses: str | None = None
    calls: str | None = None

    def given(self) -> Mapping[str, str]:
        """Give what is requested, by the filter's name."""
        return {name: value for name in NAMES if (value := getattr(self, name)) is not None}


NAMES = tuple(one.name for one in fields(Filters))
PATTERNS: Mapping[str, Callable[[Unit], str]] = {
    "file": lambda unit: unit.file,
    "path": lambda unit: unit.path,
    "signature": lambda unit: unit.facts.signature,
}
"""Filters that look for a part of a text."""


def parse(params: Mapping[str, Scalar]) -> Filters:
    """Read filters as they stand beside a query; ``risk-tag`` and ``risk_tag`` are one.

    Raises:
        InvalidFilter: a name or a value is unknown.
    """
    found: dict[str, str] = {}
    for key, value in params.items():
        name = key.removeprefix("--").replace("-", "_")
        if name not in NAMES:
            raise InvalidFilter(f"no filter {key}; there is {', '.join(NAMES)}")
        if value is None:
            continue
        if name in found:
            raise InvalidFilter(f"{key}: is given twice; filters take one value each")
        found[name] = str(value)
    return checked(Filters(**found))


def checked(filters: Filters) -> Filters:
    """Give the filters back where each can be requested.

    Raises:
        InvalidFilter: a value is empty, no severity, or no regular expression.
    """
    for name, value in filters.given().items():
        if not folded(value, name):
            raise InvalidFilter(f"{name}: is empty; leave the filter out, or name a value")
        if name == "risk" and folded(value, name) not in SEVERITIES:
            raise InvalidFilter(f"risk: is {value!r}; name {', '.join(SEVERITIES)}")
        if name in PATTERNS:
            try:
                pattern(value)
            except InvalidFilter as exc:
                raise InvalidFilter(f"{name}: {exc}") from exc
    return filters


def pattern(value: str) -> Expression | None:
    """Compile what stands between slashes; None where the value is a plain part of a text.

    Raises:
        InvalidFilter: it is not a regular expression, or too long to be one that a person wrote.
    """
    if len(value) < 3 or not (value.startswith("/") and value.endswith("/")):  # noqa: PLR2004  //
        return None
    if len(value) > LONGEST_PATTERN:
        raise InvalidFilter(f"a regular expression has at most {LONGEST_PATTERN} characters")
    return _compiled(value[1:-1])


@lru_cache(maxsize=64)
def _compiled(expression: str) -> Expression:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        made: Expression = re2.compile(expression, options)
    except (re2.error, UnicodeEncodeError) as exc:
        why = exc.args[0].decode() if isinstance(exc, re2.error) else exc.reason
        raise InvalidFilter(
            f"/{expression}/: no regular expression of RE2 ({why}); correct it, or take the "
            "slashes away. RE2 has no lookaround and no backreferences"
        ) from exc
    return made


def folded(value: str, name: str = "") -> str:
    """Bring a value to the form in which it is compared."""
    text = " ".join(value.split()).casefold()
    return text.removeprefix(".") if name == "ext" else text


def values(unit: Unit, name: str) -> frozenset[str]:
    """Give everything that a unit has of a filter that compares whole values, folded."""
    return frozenset(folded(one, name) for one in _VALUES[name](unit) if one)


def passes(unit: Unit, given: Mapping[str, str]) -> bool:
    """Tell whether a unit has all that is requested; the exact filter, which always runs."""
    for name, value in given.items():
        text = PATTERNS.get(name)
        if text is None:
            if folded(value, name) not in values(unit, name):
                return False
        elif not _has(text(unit), value):
            return False
    return True


def _has(text: str, value: str) -> bool:
    expression = pattern(value)
    return bool(expression.search(text)) if expression else folded(value) in folded(text)


def _with_last_parts(names: Iterable[str]) -> Iterable[str]:
    """Give ``os.path.join`` as ``join`` too: who asks for either means it."""
    for name in names:
        yield name
        yield name.rpartition(".")[2]


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
