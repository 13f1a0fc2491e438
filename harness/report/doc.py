"""What is to be shown, apart from how: one model of pages, reports, printed tables and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from harness.core.printable import json_text, printable
from harness.core.scores import Estimate
from harness.report.rounding import (
    for_json,
    in_unit,
    interval,
    markdown,
    markdown_rows,
    signed,
    without_unit,
)

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table as Drawn
    from rich.text import Text as Words

PIPED = 10_000
"""Columns of an output that is not a terminal, so that no line is cut or folded."""
NOT_MEASURED = "not measured"
NOTHING = "Nothing was measured."
DEEPEST = 6
"""Level of the smallest heading."""
LOOKS = frozenset({"kind", "anchor", "fold", "svg", "tone", "stripes"})
"""Fields that say how a block looks; other programs do not get them."""
STYLES = {
    "good": "green", "bad": "bold red", "open": "yellow", "headline": "bold", "about": "dim",
    "quiet": "dim", "pass": "green", "fail": "bold red", "inconclusive": "yellow",
    "promote": "bold green", "hold": "bold red", "rollback": "bold red", "unsure": "yellow",
    "waits": "yellow",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Num:
    """A number with all that a reader needs beside it; it is rounded where it is written."""

    value: float | None
    unit: str = ""
    """``ns``, ``ratio``, ``share``, ``count``, ``p``, or a word that stands behind the number."""
    low: float | None = None
    """None without an interval; an infinite end is unbounded."""
    high: float | None = None
    n: int | None = None
    """Written beside the interval where it is set."""
    more: str = ""
    """What else stands below."""
    signed: bool = False
    bare: bool = False
    """Whether the header names the unit."""
    tone: ClassVar[str] = ""
    href: ClassVar[str] = ""

    @classmethod
    def of(
        cls, found: Estimate, unit: str = "", *, n: bool = False, more: str = "",
        signed: bool = False, bare: bool = False,
    ) -> Num:  # fmt: skip
        """Take an estimate over, with its n where ``n`` is set."""
        size = found.n if n else None
        return cls(found.value, unit, found.low, found.high, size, more, signed, bare)

    @property
    def text(self) -> str:
        """The number alone."""
        if self.signed:
            return signed(self.value)
        return (without_unit if self.bare else in_unit)(self.value, self.unit)

    @property
    def note(self) -> str:
        """Its interval, n and what else is known of it."""
        ends = ""
        if self.value is not None and self.low is not None and self.high is not None:
            ends = interval(Estimate(self.value, self.low, self.high, self.n or 0), self.unit)
        size = "" if self.n is None else f"n {self.n:,}"
        return " ".join(filter(None, (", ".join(filter(None, (ends, size))), self.more)))


@dataclass(frozen=True, slots=True)
class Cell:
    """Words and, below them, more words."""

    text: str
    note: str = ""
    tone: str = ""
    """A verdict, or ``good``, ``bad``, ``open`` or ``quiet``."""
    href: str = ""
    """Where the words lead on a page; empty if nowhere."""


Value = Num | Cell


def measured(
    found: Estimate | None, unit: str = "", *, instead: str = NOT_MEASURED, n: bool = False,
    more: str = "", signed: bool = False, bare: bool = False,
) -> Value:  # fmt: skip
    """Show an estimate with its interval, or words where there is none."""
    if found is None:
        return Cell(instead)
    return Num.of(found, unit, n=n, more=more, signed=signed, bare=bare)


def time_cell(found: Estimate | None) -> Value:
    """Show nanoseconds in milliseconds with their interval; words where there are too few."""
    return measured(found, "ns", instead="too few times", bare=True)


@dataclass(frozen=True, slots=True)
class TableBlock:
    """Header, and rows whose first cell names the row."""

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    kind: str = "numbers"
    anchor: str = ""
    """Of each row, with its number; empty where nothing leads to rows."""


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    kind: str = ""
    """``headline``, ``about``, ``lead``, ``instead``, ``good``, ``bad`` or ``open``."""


@dataclass(frozen=True, slots=True)
class Items:
    """Lines that belong together."""

    items: tuple[str, ...]
    label: str = ""
    kind: str = "notes"


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """Lines to be typed."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A way to another page."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing of ours; its numbers are in a table."""

    svg: str
    caption: str = ""


class Bar(NamedTuple):
    """Ends and value, in multiples of the furthest distance from a bound."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, slots=True)
class Stripe:
    """One gate against its bound."""

    name: str
    verdict: str
    href: str
    bar: Bar | None
    """None where there is nothing to draw."""
    allowed: tuple[float, float] | None
    """Where its interval passes, on the scale of the bar; None where that is not one side."""


@dataclass(frozen=True, slots=True)
class Strip:
    """Gates below each other; their numbers are in a table."""

    label: str
    stripes: tuple[Stripe, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A title and what stands under it; the outermost one is a document."""

    title: str
    blocks: tuple[Block, ...] = ()
    anchor: str = ""
    kind: str = ""
    fold: Literal["", "open", "closed"] = ""


@dataclass(frozen=True, slots=True)
class Card:
    """The answer for one thing, on the first screen."""

    title: str
    outcome: str
    """The answer in a word or two."""
    blocks: tuple[Block, ...]
    tone: str = ""
    """``promote``, ``waits``, ``unsure``, ``hold``, ``rollback``, or none."""


@dataclass(frozen=True, slots=True)
class Cards:
    """Answers beside each other."""

    cards: tuple[Card, ...]


Block = Section | Text | TableBlock | Items | CodeBlock | Link | Figure | Strip | Cards | Card


def to_json(doc: Section) -> str:
    """Write a document for another program; numbers are values, cut to what is stored of them."""
    return json_text(_plain(doc))


def kind_of(block: Block) -> str:
    """Name the kind of a block, as templates and other programs know it."""
    return type(block).__name__.removesuffix("Block").lower()


def _plain(block: Block) -> dict[str, Any]:
    shown = [field.name for field in fields(block) if field.name not in LOOKS]
    inside = {name: _plain_value(getattr(block, name)) for name in shown}
    return {"kind": kind_of(block), **inside}


def _plain_value(value: object) -> object:
    match value:
        case tuple():
            return [_plain_value(one) for one in value]
        case Cell():
            return {"text": value.text, "note": value.note} if value.note else value.text
        case Num():
            found: dict[str, Any] = {"value": for_json(value.value), "unit": value.unit}
            if value.low is not None or value.high is not None:
                found |= {"low": for_json(value.low), "high": for_json(value.high)}
            if value.n is not None:
                found["n"] = value.n
            return {**found, "note": value.more} if value.more else found
        case str():
            return value
        case _:
            return _plain(value)  # type: ignore[arg-type]  # a block holds nothing else


def to_markdown(doc: Section, level: int = 1) -> str:
    """Write a document as GitHub-flavoured Markdown; figures are left out."""
    return "\n".join(_marked(doc, level)).rstrip() + "\n"


def _marked(block: Block, level: int) -> Iterator[str]:
    heading = "#" * min(level, DEEPEST)
    match block:
        case Section() | Card():
            said = f"{block.title}: {block.outcome}" if isinstance(block, Card) else block.title
            yield from (f"{heading} {markdown(said)}", "")
            for one in block.blocks:
                yield from _marked(one, level + 1)
        case Cards():
            for card in block.cards:
                yield from _marked(card, level)
        case TableBlock():
            yield from (f"{heading} {markdown(block.caption)}", "") if block.caption else ()
            rows = [[" ".join(filter(None, (c.text, c.note))) for c in row] for row in block.rows]
            yield from markdown_rows(block.header, rows) if rows else (NOTHING, "")
        case Text():
            text = markdown(block.text)
            yield from (f"**{text}**" if block.kind in {"headline", "answer"} else text, "")
        case Items():
            yield from (f"{markdown(block.label)}:", "") if block.label else ()
            yield from (*(f"- {markdown(one)}" for one in block.items), "")
        case CodeBlock():
            lines = (printable(line).replace("\n", " ") for line in block.lines)
            yield from (*(f"    {line}" for line in lines), "")


@dataclass(frozen=True)
class Printed:
    """A document as wide as the terminal, drawn by rich; where it is piped, no line is cut."""

    doc: Section
    say: Callable[[str], str] = printable
    """How every text is written; it makes texts of strangers harmless."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw all blocks, an empty line before each section and table but the first."""
        width = options.max_width if console.is_terminal else PIPED
        wide = options.update(width=width, no_wrap=False, overflow="fold")
        for part in _drawn(self.doc, self.say, 0):
            yield from console.render(part, wide)


def _drawn(block: Block, say: Callable[[str], str], depth: int) -> Iterator[RenderableType]:
    from rich.text import Text as Words  # only what prints pays for it

    match block:
        case Section() | Card():
            if block.title:
                title = Words(("\n" if depth else "") + say(block.title), "bold")
                outcome = f"  {say(block.outcome)}" if isinstance(block, Card) else ""
                tone = STYLES.get(block.tone, "") if isinstance(block, Card) else ""
                yield title.append(outcome, tone)
            for one in block.blocks:
                yield from _drawn(one, say, depth + 1)
        case Cards():
            for card in block.cards:
                yield from _drawn(card, say, depth)
        case TableBlock():
            yield from [Words("")] if depth else []
            yield _drawn_table(block, say)
        case Text():
            yield Words(say(block.text), STYLES.get(block.kind, ""))
        case Items():
            yield from [Words(say(f"{block.label}:"))] if block.label else []
            yield from (Words(say(f"- {one}")) for one in block.items)
        case CodeBlock():
            yield from (Words(say(f"  {line}")) for line in block.lines)


def _drawn_table(table: TableBlock, say: Callable[[str], str]) -> Drawn:
    """Draw a table; what stands beside a row's name gets a line of its own."""
    from rich.table import Column
    from rich.table import Table as Drawn
    from rich.text import Text as Words

    drawn = Drawn(
        *(Column(Words(say(name))) for name in table.header),
        title=Words(say(table.caption)) or None,
        title_style="bold", title_justify="left", header_style="dim", box=None,
        padding=(0, 2, 0, 0),
    )  # fmt: skip
    for first, *rest in table.rows:
        drawn.add_row(_words(first, "\n", say), *(_words(cell, "  ", say) for cell in rest))
    if not table.rows:
        drawn.add_row(Words("none", "dim"))
    return drawn


def _words(cell: Value, between: str, say: Callable[[str], str]) -> Words:
    from rich.text import Text as Words

    style = STYLES.get(cell.tone, "") if isinstance(cell, Cell) else ""
    made = Words(say(cell.text), style)
    return made.append(between + say(cell.note), "dim") if cell.note else made


def row(*cells: Value | str | int) -> tuple[Value, ...]:
    """Make a row of numbers and words; a whole number is a count."""
    return tuple(
        Num(cell, "count") if isinstance(cell, int) else Cell(cell) if isinstance(cell, str)
        else cell
        for cell in cells
    )  # fmt: skip


def table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[Value | str | int]]
) -> TableBlock:
    """Make a table of numbers and words."""
    return TableBlock(caption, tuple(header), tuple(row(*cells) for cells in rows))
