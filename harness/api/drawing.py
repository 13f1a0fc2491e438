"""Figures for a paper, as PNG, SVG or PDF, the same to the byte each time."""

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from harness.api.comparison import Difference
from harness.api.paper_table import Table
from harness.core.errors import EvidenceError, HarnessError
from harness.core.files import replacing
from harness.report.page import figures
from harness.report.svg import ARMS, INK, STYLE, label, quiet

KINDS = ("png", "svg", "pdf")
WIDTH = 6.4  # inches
UNDATED: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Metadata that would differ from day to day or from version to version."""


@dataclass(frozen=True, slots=True, repr=False)
class Drawing:
    """A figure, drawn when it is shown or saved."""

    size: tuple[float, float]
    """Inches."""
    paint: Callable[[Figure], None]
    about: str
    """Description of the figure, as text."""

    def __repr__(self) -> str:
        return self.about

    def save(self, path: str | Path) -> None:
        """Write the figure in the format of the suffix of ``path``.

        Raises:
            HarnessError: the suffix is not one of ``KINDS``.
        """
        to = Path(path)
        kind = to.suffix.removeprefix(".")
        if kind not in KINDS:
            raise HarnessError(f"{to}: no figure ends so; name a file that ends in {KINDS}")
        with replacing(to) as beside:
            beside.write_bytes(self._written(kind))

    def _repr_svg_(self) -> str:
        return self._written("svg").decode("utf-8")

    def _written(self, kind: str) -> bytes:
        written = io.BytesIO()
        with rc_context({**STYLE, "pdf.fonttype": 42}), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # letters that the font lacks
            figure = Figure(figsize=self.size, dpi=200)
            self.paint(figure)
            figure.savefig(written, format=kind, metadata=UNDATED[kind])
        return written.getvalue()


def draw_differences(found: Difference) -> Drawing:
    """Draw the difference of every query, sorted, with the mean and its interval."""
    beside = f"{found.measure}: {label(found.candidate)} - {label(found.control)}"
    values, estimate = found.paired.difference, found.estimate
    paint = partial(figures.paint_differences, values, estimate, (figures.ORDER, beside))
    about = f"Differences of {found.measure} by query, {found.candidate} - {found.control}"
    return Drawing((WIDTH, 3.0), paint, about)


def draw_forest(table: Table) -> Drawing:
    """Draw every difference from the baseline with its interval, one panel for each measure.

    Each interval is for one comparison; marks follow the correction over the whole table.

    Raises:
        EvidenceError: the table has no baseline, or tests nothing against it.
    """
    if not table.baseline:
        raise EvidenceError("a forest plot needs a baseline. Name it: table(..., baseline=NAME)")
    if not table.pairs:
        raise EvidenceError("a forest plot needs a test. Add a system, or a measure of quality")
    arms = [arm for arm in table.systems if arm != table.baseline]
    measures = list(dict.fromkeys(pair.measure for pair in table.pairs))
    height = len(measures) * (0.24 * len(arms) + 0.62) + 0.15

    def paint(figure: Figure) -> None:
        panels = figure.subplots(len(measures), 1, squeeze=False)[:, 0]
        figure.subplots_adjust(left=0.24, right=0.97, top=1 - 0.34 / height, bottom=0.3 / height)
        figure.subplots_adjust(hspace=0.6 / (0.24 * len(arms) + 0.02))
        for axes, measure in zip(panels, measures, strict=True):
            quiet(axes, grid="x")
            axes.axvline(0, color=INK, linewidth=0.8)
            axes.set_title(f"{measure}, difference from {label(table.baseline)}", fontsize=9.5)
            for pair in (one for one in table.pairs if one.measure == measure):
                at = arms.index(pair.system)
                axes.plot([pair.low, pair.high], [at, at], color=ARMS[0], linewidth=2)
                axes.plot([pair.difference], [at], "o", color=ARMS[0], markersize=5.5)
            names = [f"{label(arm)} {table.mark(arm, measure)}".strip() for arm in arms]
            axes.set_yticks(range(len(arms)), names)
            axes.set_ylim(len(arms) - 0.5, -0.5)

    about = f"Differences from {table.baseline} of {', '.join(measures)}, with intervals"
    return Drawing((WIDTH, height), paint, about)
