"""A load test as evidence: its files, its gate and its part of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.evidence import ArmResult, Load
from harness.core.files import seen_from
from harness.core.parts import EvidenceKind
from harness.load import page_of, receipt_of, trials_of
from harness.pipeline.layout import Layout
from harness.report.doc import Block, Figure, Items, Link, Section, Text

if TYPE_CHECKING:
    from harness.load.results import LoadReport


def artifacts(layout: Layout) -> Iterable[Path]:
    """List receipt and trials of the last load, where one was run."""
    return (receipt_of(layout), trials_of(layout)) if trials_of(layout).is_file() else ()


def collect(layout: Layout, control: ArmResult, candidate: ArmResult) -> Load | None:
    """Read the last load; None where none was run, or an arm was indexed or replayed since."""
    del control, candidate
    if not trials_of(layout).is_file():
        return None
    from harness.load.results import last, load_of

    found = last(layout)
    return load_of(*found) if found else None


def section(
    layout: Layout, fingerprints: Mapping[str, str], folder: Path
) -> Callable[..., Section] | None:
    """Describe the last load; None where none was run."""
    del fingerprints
    load, page = None, seen_from(folder, page_of(layout))
    if trials_of(layout).is_file():
        from harness.load.results import combine, last

        if found := last(layout):
            trials, params = found
            control = next(one.arm for one in trials if one.twin)
            arms = dict.fromkeys((control, *sorted(one.arm for one in trials)))
            load = combine(trials, tuple(arms), params)
    return partial(shown, load, page) if load or page else None


def shown(load: LoadReport | None, page: str, prefix: str, *, now: bool = True) -> Section:
    """Describe a load beside its page; ids of figures begin with ``prefix``."""
    from harness.load.page import load_curve, notes

    load = load if now else None
    at = f" Loaded {load.loaded_at}." if load else ""
    said = "Queries arrive at fixed rates, whatever the engine does, so queueing delay counts."
    blocks: list[Block] = [Text(said + at, "lead")]
    if page:
        blocks.append(Link("The page of the load", page))
    if load is None:
        blocks.append(Text("The load is not of these arms as they are now.", "instead"))
    else:
        drawn = load_curve(f"{prefix}-load-curve", load)
        blocks += [Figure(drawn, "Response time against the rate.")] if drawn else []
        blocks.append(Items(notes(load)))
    return Section("Under load", tuple(blocks), f"{prefix}-load", "load")


KIND: EvidenceKind[Layout, Load] = EvidenceKind(
    name="load",
    value=Load,
    collect=collect,
    artifacts=artifacts,
    section=section,
    rules={"queueing": "harness.load.queueing"},
    always=False,
)
