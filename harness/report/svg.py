"""Drawing to SVG that is the same to the byte each time and takes its colours from the page."""

from __future__ import annotations

import html
import io
import os
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from harness.core.files import place
from harness.core.printable import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, LINE, PAPER = "#1f2328", "#5b6470", "#d0d5db", "#fbfbf9"
VERDICT = MappingProxyType({"pass": "#1b7f4d", "fail": "#b3261e", "inconclusive": "#54708f"})
WORSE, BETTER = "#c2510a", "#0a66a8"
ARMS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#7a5195", "#6f6f6f")
"""Okabe and Ito's colours (told apart without red and green), yellow and black replaced."""
MARKS = ("o", "s", "D", "^", "v", "P", "X", "*")
"""A mark of each arm, beside its colour."""
NAMES = MappingProxyType({
    INK: "ink",
    MUTED: "muted",
    LINE: "line",
    PAPER: "paper",
    **{colour: verdict for verdict, colour in VERDICT.items()},
    WORSE: "worse",
    BETTER: "better",
    **{colour: f"arm-{at}" for at, colour in enumerate(ARMS)},
})
KEY_TOP, KEY_LINE, KEY_MARK, KEY_NAME = 0.96, 0.08, 1.055, 1.09
"""Where names of arms stand beside a plot, in its own height and width."""
ABOUT = 2_000
"""Longest words that are read aloud, in characters."""
LABEL = 26
"""Longest label drawn, in characters."""
STYLE: Any = {  # rcParams; matplotlib types their names as one long Literal
    "svg.fonttype": "none",
    "svg.hashsalt": "search-harness",
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": LINE,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 9,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "font.size": 9,
    "font.family": "DejaVu Sans",
}
FONTS = "MPLCONFIGDIR"
"""Variable that says where matplotlib keeps its settings, and what it found of fonts."""


def settle() -> None:
    """Keep matplotlib's list of fonts elsewhere where a home takes no files.

    Without that it warns, and looks for all fonts anew in each command. It reads the variable when
    it is imported, so a command settles this first.
    """
    if FONTS not in os.environ and not os.access(Path("~").expanduser(), os.W_OK | os.X_OK):
        os.environ[FONTS] = str(place() / "matplotlib")


def label(text: str) -> str:
    """Fit a name to the space that a figure has."""
    return one_line(text, LABEL)


def draw(name: str, about: str, size: tuple[float, float], paint: Callable[[Figure], None]) -> str:
    """Return an SVG element of ``size`` inches, painted by ``paint``.

    ``name`` is unique on a page: all ids inside begin with it. ``about`` is read aloud in place of
    the figure. Colours of this module become custom properties of the page (``--ink`` ...), with
    the colour itself where the page sets none.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # letters that the measuring font lacks
        figure = Figure(figsize=size)
        figure.patch.set_alpha(0)
        paint(figure)
        for axes in figure.axes:
            axes.patch.set_alpha(0)
        FigureCanvasSVG(figure)
        written = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(written, format="svg", metadata=nothing, transparent=True)
    return _for_page(written.getvalue(), name, about)


def _for_page(text: str, name: str, about: str) -> str:
    body = text[text.index(">", text.index("<svg")) + 1 :]
    box = re.search(r'viewBox="([^"]+)"', text)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'(?:xlink:)?href="#', f'href="#{name}-', body)
    body = body.replace("url(#", f"url(#{name}-")
    body = re.sub(r"'DejaVu Sans'(, [^;\"]+)?", "var(--font, sans-serif)", body)
    for colour, variable in NAMES.items():
        body = body.replace(colour, f"var(--{variable}, {colour})")
    body = re.sub(r"\n\s*", "\n", body)
    view = box.group(1) if box else ""
    spoken = html.escape(one_line(about, ABOUT), quote=True)
    return f'<svg class="figure" viewBox="{view}" role="img" aria-label="{spoken}">{body.strip()}'


def key(axes: Axes, at: int, arm: str) -> None:
    """Name the arm number ``at`` beside the plot, after its colour and its mark."""
    y = KEY_TOP - KEY_LINE * at
    axes.plot([KEY_MARK], [y], MARKS[at % len(MARKS)], color=ARMS[at % len(ARMS)], markersize=5.5,
              transform=axes.transAxes, clip_on=False)  # fmt: skip
    axes.text(KEY_NAME, y, label(arm), transform=axes.transAxes, va="center")


def note(axes: Axes, line: int, text: str) -> None:
    """Write a line of words at the foot of the names, 0 the upper one."""
    y = 0.10 - KEY_LINE * line
    axes.text(KEY_MARK - 0.015, y, text, transform=axes.transAxes, color=MUTED, va="center")


def logarithmic(axes: Axes, way: str, steps: tuple[int, ...] = (1, 2, 5)) -> None:
    """Scale the axis ``way`` (x or y) by powers of ten, with plain numbers at these steps."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set(**{f"{way}scale": "log"})
    axis = axes.xaxis if way == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_locator(NullLocator())


def quiet(axes: Axes, *, grid: Literal["x", "y"]) -> None:
    """Leave only the grid lines of one direction and no frame."""
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.grid(visible=True, axis=grid)
