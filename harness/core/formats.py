"""Untrusted JSON, TOML, YAML and rows of CSV, read within bounds; and CSV written."""

import csv
import io
import json
import math
import re
import tomllib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

import yaml
from pydantic import AfterValidator, AwareDatetime
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode

from harness.core.reading import MAX_FILE_BYTES, Malformed, naming, text_of

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: object) -> object:
    """Return the value itself, or the escaped text if a spreadsheet would run it."""
    if not (isinstance(value, str) and value.startswith(FORMULA)):
        return value
    with suppress(ValueError):
        float(value)
        return value
    return f"'{value}"


def to_csv(names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Write rows as CSV; what a row lacks, None and NaN are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(cell, names))
    for row in rows:
        values = map(row.get, names)
        writer.writerow("" if value != value else cell(value) for value in values)  # noqa: PLR0124  NaN
    return text.getvalue()


LONGEST_NUMBER = 300
"""Characters; YAML 1.1 counts minutes and seconds too, in the square of their number."""
TAG = "tag:yaml.org,2002:"
MAX_SETTINGS_BYTES, MAX_YAML_BYTES = 1 << 20, 1 << 18
"""Of a file that a person writes: TOML is read slowly, and YAML more so."""
MAX_INDEX_BYTES = 4 << 30
MAX_DEPTH = 100
MAX_DIGITS = 300
"""Digits of a whole number; longer ones exceed a float."""
_DOTTED = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""")
"""A key of so many parts, for which tomllib would take the square of their number in memory."""
SHOWN = 40


def json_file(path: Path, *, most: int = MAX_FILE_BYTES) -> Any:  # noqa: ANN401  any JSON
    """Read a file that is one JSON value."""
    with naming(path):
        return json_of(text_of(path, most=most))


def json_of(text: str) -> Any:  # noqa: ANN401  any JSON
    """Read JSON."""
    try:
        found = _JSON.decode(text)
    except json.JSONDecodeError as exc:
        raise Malformed(str(exc), exc.lineno) from exc
    except (ValueError, RecursionError) as exc:
        raise Malformed(_said(exc)) from exc
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _refuse_deep(found)
    if "\\u" in text:
        _refuse_halves(json.dumps(found, ensure_ascii=False))
    return found


def checked(text: str) -> str:
    """Return JSON back after checking the bounds, for callers with a schema of their own."""
    json_of(text)
    return text


def moment_of(text: str) -> datetime:
    """Read a time with its zone, as ISO 8601 has it."""
    try:
        moment = datetime.fromisoformat(text)
    except (ValueError, TypeError) as exc:
        raise Malformed(f"{str(text)[:SHOWN]!r} is not a time") from exc
    if moment.tzinfo is None:
        raise Malformed(f"{text[:SHOWN]!r} names no zone")
    return in_years(moment)


def in_years(moment: datetime) -> datetime:
    """Check that every zone can express a time."""
    try:
        moment.astimezone(UTC)
    except OverflowError as exc:
        raise Malformed(f"{moment.isoformat()} is outside the years 1 to 9999 of UTC") from exc
    return moment


def toml_file(path: Path) -> dict[str, Any]:
    """Read a file of TOML."""
    with naming(path):
        return toml_of(text_of(path, most=MAX_SETTINGS_BYTES))


def toml_of(text: str) -> dict[str, Any]:
    """Read TOML."""
    if dotted := _DOTTED.search(text):
        line = text.count("\n", 0, dotted.start()) + 1
        raise Malformed(f"it is nested more than {MAX_DEPTH} deep", line)
    try:
        found = tomllib.loads(text, parse_float=_toml_float)
    except (ValueError, RecursionError) as exc:
        at = re.search(r"\(at line (\d+)", str(exc))
        end = text.count("\n") + 1 if "at end of document" in str(exc) else None
        raise Malformed(_said(exc), int(at[1]) if at else end) from exc
    _refuse_deep(found)
    return found


def yaml_file(path: Path, *, most: int = MAX_YAML_BYTES) -> Any:  # noqa: ANN401  any YAML
    """Read a file of YAML."""
    with naming(path):
        return yaml_of(text_of(path, most=most))


def yaml_of(text: str) -> Any:  # noqa: ANN401  any YAML
    """Read YAML of plain values."""
    try:
        found = yaml.load(text, Loader)  # noqa: S506  a safe loader of ours
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        line = mark.line + 1 if mark else None
        raise Malformed(str(exc.problem), line) from exc
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as exc:
        raise Malformed(_said(exc)) from exc
    for one in _refuse_deep(found):
        if isinstance(one, float) and not math.isfinite(one):
            raise Malformed(f"{one} is not a finite number")
        if isinstance(one, str):
            _refuse_halves(one)
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ValueError(f"the key {twice[:SHOWN]!r} comes twice")
    return found


def _int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits)} digits; at most {MAX_DIGITS} are read")
    return int(digits)


def _float(digits: str) -> float:
    found = float(digits)
    if not math.isfinite(found):
        raise ValueError(f"{digits[:SHOWN]} is not a finite number")
    return found


def _toml_float(digits: str) -> float:
    """Read a number of TOML, whose ``inf`` and ``nan`` are for the reader of the key to refuse."""
    return float(digits) if digits.lstrip("+-") in {"inf", "nan"} else _float(digits)


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_JSON = json.JSONDecoder(
    object_pairs_hook=_once, parse_int=_int, parse_float=_float, parse_constant=_no_number
)


def _refuse_deep(found: object) -> list[object]:
    """Refuse what is nested too deeply; give all that it holds."""
    held, level = [found], [found]
    for _ in range(MAX_DEPTH + 1):
        nested = [one for one in level if isinstance(one, dict | list)]
        if not nested:
            return held
        flat = (chain(*one.items()) if isinstance(one, dict) else one for one in nested)
        level = [*chain.from_iterable(flat)]
        held += level
    raise Malformed(f"it is nested more than {MAX_DEPTH} deep")


def _refuse_halves(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as exc:
        half = exc.object[exc.start]
        raise Malformed(f"it holds half of a surrogate pair ({half!r}), no character") from exc


def _said(exc: Exception) -> str:
    if isinstance(exc, RecursionError):
        return f"it is nested more than {MAX_DEPTH} deep"
    return str(exc) or type(exc).__name__


def _short(loader: yaml.SafeLoader, node: ScalarNode) -> Any:  # noqa: ANN401  an int or a float
    if len(node.value) > LONGEST_NUMBER:
        problem = f"a number has {len(node.value)} digits; at most {LONGEST_NUMBER} are read"
        raise ConstructorError(None, None, problem, node.start_mark)
    return yaml.SafeLoader.yaml_constructors[node.tag](loader, node)


class Loader(yaml.SafeLoader):
    """A safe loader that refuses keys that come twice, and aliases, which can outgrow memory."""

    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        **yaml.SafeLoader.yaml_constructors,
        f"{TAG}int": _short,
        f"{TAG}float": _short,
    }

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise ConstructorError(None, None, "an alias; write the value itself", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002  as above
        seen: set[object] = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if isinstance(name, Hashable):
                if name in seen:
                    problem = f"the key {name!r} comes twice"
                    raise ConstructorError(None, None, problem, key.start_mark)
                seen.add(name)
        return super().construct_mapping(node, deep=deep)


Moment = Annotated[AwareDatetime, AfterValidator(in_years)]
"""A time with its zone, which every zone can tell."""
