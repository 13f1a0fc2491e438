"""A load test as evidence: its files, its gate and its part of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core import digest
from harness.core.evidence import ArmResult, Load
from harness.core.files import seen_from
from harness.core.parts import EvidenceKind
from harness.load.paths import history_of, page_of, receipt_of, trials_of
from harness.pipeline.layout import Layout
from harness.pipeline.params import LoadParams
from harness.report.doc import Block, Figure, Items, Link, Section, TableBlock, Text

if TYPE_CHECKING:
    from harness.load.trial import LoadReport, Record


def artifacts(layout: Layout) -> Iterable[Path]:
    """Yield receipt and trials of the last load, where one was run."""
    if trials_of(layout).is_file():
        yield from (receipt_of(layout), trials_of(layout))


def collect(layout: Layout, control: ArmResult, candidate: ArmResult) -> Load | None:
    """Read the last load; None where none was run, or an arm was indexed or replayed since."""
    del control, candidate
    if not (receipt_of(layout).is_file() and trials_of(layout).is_file()):
        return None
    from harness.load.files import read_load

    return read_load(layout)


def last_load(layout: Layout, fingerprints: Mapping[str, str]) -> LoadReport | None:
    """Combine the trials of the last load; None where none was run, or of other indexes.

    ``fingerprints`` are those of the arms as they are now. Searches for a highest rate are left
    to the page of the load.
    """
    if not (receipt_of(layout).is_file() and history_of(layout).is_file()):
        return None
    from harness.load.files import CURVE, LOAD_KEY, RECEIPT, TRIALS
    from harness.load.stage import combine

    receipt = RECEIPT.read(receipt_of(layout))
    if any(fingerprints.get(arm) != of for arm, of in receipt["arms"].items()):
        return None
    key = digest.of_json(receipt)[:LOAD_KEY]
    trials: dict[tuple[str, bool, float | None, int], Record] = {}
    for one in TRIALS.read(history_of(layout)):
        if one.about["load"] == key and one.purpose == CURVE:
            trials[one.arm, one.twin, one.rate, one.number] = one  # the same load run again
    if not trials:
        return None
    control = next(arm for arm, twin, *_ in trials if twin)
    arms = tuple(dict.fromkeys((control, *sorted(arm for arm, *_ in trials))))
    return combine(tuple(trials.values()), arms, LoadParams.model_validate(receipt["params"]))


def section(
    layout: Layout, fingerprints: Mapping[str, str], folder: Path
) -> Callable[..., Section] | None:
    """Describe the last load; None where none was run."""
    load, page = last_load(layout, fingerprints), seen_from(folder, page_of(layout))
    return partial(shown, load, page) if load or page else None


def shown(load: LoadReport | None, page: str, prefix: str, *, now: bool = True) -> Section:
    """Describe a load beside its page; ids of figures begin with ``prefix``."""
    load = load if now else None
    return Section("Under load", tuple(_shown(load, page, prefix)), f"{prefix}-load", "load")


def _shown(load: LoadReport | None, page: str, prefix: str) -> Iterator[Block]:
    from harness.load.page import load_curve, notes

    at = f" Loaded {load.loaded_at}." if load else ""
    said = "Queries arrive at fixed rates, whatever the engine does, so queueing delay counts."
    yield Text(said + at, "lead")
    if page:
        yield Link("The page of the load", page)
    if load is None:
        yield Text("The load is not of these arms as they are now.", "instead")
        return
    if (shared := highest_shared(load)).rows:
        yield shared
    if drawn := load_curve(f"{prefix}-load-curve", load):
        yield Figure(drawn, "Response time against the rate.")
    yield Items(notes(load))


def highest_shared(report: LoadReport) -> TableBlock:
    """Keep of the response times those at the highest rate at which every arm has some."""
    from harness.load.page import response

    shared = [
        rate
        for rate in report.rates
        if all((found := report.point(arm, rate)) and found.overall.count for arm in report.arms)
    ]
    kept = tuple(point for point in report.points if shared and point.rate == shared[-1])
    return response(replace(report, points=kept))


KIND: EvidenceKind[Layout, Load] = EvidenceKind(
    name="load",
    value=Load,
    collect=collect,
    artifacts=artifacts,
    section=section,
    rules={"queueing": "harness.load.queueing"},
    always=False,
)
