"""Every regular expression of the product takes time in proportion to its text.

A run of 200,000 blanks in a page kept an index busy for hours; a line of a log and a query too.
"""

import ast
import importlib
import re
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from re import _parser  # type: ignore[attr-defined]  # what a pattern is made of
from time import thread_time
from types import FrameType
from typing import Any

import pytest

from tests.source import known

UNITS = (
    " ", "\n", "\t", "a", "0", ".", "-", "_", "<", "(", '"', "'", "\\", "/", "*", "`", "[", "{",
    ",", "@", "=", "#", "$", "&", "A", "é", "a ", "0.", "a.", " \n", "\r\n", "a=", "[ ",
)  # fmt: skip
ENDS = ("\0", "a\0", "\n")
FIRST, SHORT, LONG = 400, 1_000, 4_000
QUICK_S = 0.0001
"""Of the first length; what takes longer is tried at the two others"""
MOST = 9.0
"""Times as long for four times the text; what is linear takes 4, and what is quadratic 16."""
CONFIRMED = 3
"""Times in a row that a pattern is too slow; on a busy machine one measurement may be."""
LATE_S = 0.25
"""Of a processor, as all seconds here."""
BOUNDED: Mapping[tuple[str, str], str] = {
    ("harness_engines.stacks.documents.texts", "_BREAKS"): "it looks into the overlap of a chunk",
    ("harness_engines.stacks.http.settings", "PLACE"): "it reads an arm, the operator's own",
    ("harness.report.explorer", "PALETTE"): "it reads our own page.css",
    ("harness.report.svg", "<!--.*?-->"): "it reads figures that we drew",
    ("harness.report.svg", "<metadata>.*?</metadata>"): "the same",
    ("harness.shadow.http", "//.*@|[?#].*"): "it reads what the operator typed",
}
"""Patterns that see no foreign text, or not more of it than a bound."""
OFTEN = 50
"""Times; what repeats less takes a bounded time at each place of a text"""
WHOLE = {"match", "fullmatch"}
METHODS = {"search", "match", "fullmatch", "split", "sub", "subn", "findall", "finditer"}


@dataclass(frozen=True)
class Found:
    """A pattern, where it is, and whether it is held against the beginning or all of a text."""

    pattern: re.Pattern[Any]
    module: str
    name: str
    how: str

    def took(self, text: str) -> float:
        """Return the seconds that it takes, or ``LATE_S`` where it takes longer."""
        said = text.encode() if isinstance(self.pattern.pattern, bytes) else text
        begun = thread_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, LATE_S)
        try:
            getattr(self.pattern, self.how)(said)
        except TimeoutError:
            return LATE_S
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return thread_time() - begun

    def least(self, text: str) -> float:
        """Return the seconds of the quickest of three times, or ``LATE_S`` where one is late."""
        first = self.took(text)
        return min(first, self.took(text), self.took(text)) if first < LATE_S else LATE_S


@cache
def patterns() -> tuple[Found, ...]:
    """Compile all patterns of the product."""
    found: dict[tuple[Any, int, str], Found] = {}
    named = re.compile(r"\bre\.")
    modules = {k: one for k, one in known().items() if named.search(one.path.read_text("utf-8"))}
    for name, module in sorted(modules.items()):
        for one in (*_at_the_top(module.tree, name), *_within(module.tree, name)):
            found.setdefault((one.pattern.pattern, one.pattern.flags, one.how), one)
    return tuple(found.values())


def _at_the_top(tree: ast.Module, module: str) -> Iterator[Found]:
    if not any(isinstance(one, ast.Attribute) and one.attr == "compile" for one in ast.walk(tree)):
        return
    used = defaultdict[str, set[str]](set)
    for one in ast.walk(tree):
        match one:
            case ast.Attribute(value=ast.Name(id=name), attr=how) if how in METHODS:
                used[name].add(how if how in WHOLE else "search")
    for name, value in vars(importlib.import_module(module)).items():
        hows = used[name] or {"search"}
        yield from (Found(one, module, name, how) for one in _inside(value) for how in hows)


def _inside(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        yield from _inside(tuple(value.values()))
    elif isinstance(value, tuple | list | set | frozenset):
        for one in value:
            yield from _inside(one)


def _within(tree: ast.Module, module: str) -> Iterator[Found]:
    for call in ast.walk(tree):
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=how),
                args=[ast.Constant(value=str() as pattern), *_],
            ) if how in METHODS:
                flags = next((one.value for one in call.keywords if one.arg == "flags"), None)
                given = eval(ast.unparse(flags), {"re": re}) if flags else 0  # noqa: S307  ours
                kept = how if how in WHOLE else "search"
                yield Found(re.compile(pattern, given), module, pattern, kept)


def literals(pattern: re.Pattern[Any]) -> tuple[str, ...]:
    """List the runs of characters that a pattern names."""
    runs = [""]

    def walk(part: object) -> None:
        match part:
            case (op, int() as code) if str(op) == "LITERAL":
                runs[-1] += chr(code)
            case _parser.SubPattern() | tuple() | list():
                for one in part:
                    walk(one)
            case _ if runs[-1]:
                runs.append("")

    walk(_parser.parse(pattern.pattern, pattern.flags))
    return tuple(dict.fromkeys(one for one in runs if one))[:24]


def repeats(part: object) -> bool:
    """Return whether a pattern holds something that may stand ``OFTEN`` times and more."""
    match part:
        case (_, (int(), int() as most, _)) if most >= OFTEN:
            return True
        case _parser.SubPattern() | tuple() | list():
            return any(map(repeats, part))
    return False


def worst(found: Found) -> str:
    """Describe a text for which a pattern takes more than in proportion; empty for none."""
    if not repeats(_parser.parse(found.pattern.pattern, found.pattern.flags)):
        return ""
    named = literals(found.pattern)
    units = dict.fromkeys((*UNITS, *named, *(f"{one} " for one in named)))
    starts = dict.fromkeys(("", "a", *named[:4], "".join(named[:2])))
    for unit, start, end in ((u, s, e) for u in units for s in starts for e in ENDS):

        def text(size: int, unit: str = unit, start: str = start, end: str = end) -> str:
            return start + unit * (size // len(unit)) + end

        if found.took(text(FIRST)) < QUICK_S:
            continue
        for _ in range(CONFIRMED):
            short, long = (found.least(text(n)) for n in (SHORT, LONG))
            if long <= MOST * short and long < LATE_S:
                break
        else:
            return f"{start!r} + {unit!r} * n + {end!r}: {short:.4f} s, then {long:.4f} s"
    return ""


@pytest.fixture
def stopped() -> Iterator[None]:
    def stop(_: int, __: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    yield
    signal.signal(signal.SIGVTALRM, before)


def slow(tried: Iterable[Found]) -> dict[tuple[str, str], str]:
    return {(one.module, one.name): said for one in tried if (said := worst(one))}


@pytest.mark.slow
@pytest.mark.usefixtures("stopped")
def test_every_pattern_takes_time_in_proportion_to_its_text() -> None:
    found = patterns()
    assert len(found) > 100
    tried = [one for one in found if (one.module, one.name) not in BOUNDED]
    assert slow(tried) == {}


@pytest.mark.slow
@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("pattern", [r"<b>.*?</b>", r"(a|a)*b"])
def test_what_is_slow_is_noticed(pattern: str) -> None:
    assert slow([Found(re.compile(pattern), "here", pattern, "search")])
