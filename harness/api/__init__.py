"""The harness from Python: read runs and judgements, score, compare, decide, check an engine.

Each function calls the same code as the stages, so a number in a notebook equals that of the
report. Results are frozen, display as tables in a notebook, and convert to a pandas frame. ``import
harness`` gives the same names. A module is imported when one of its names is first used, so reading
a run does not import matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.api.comparison import (
        Difference,
        Inference,
        Scored,
        compare,
        near_duplicates,
        score,
    )
    from harness.api.data import Collection, load_collection, load_qrels, load_run, save_collection
    from harness.api.decision import Decided, decide, log_to_mlflow
    from harness.api.drawing import Drawing, draw_differences, draw_forest
    from harness.api.paper_table import Table, table
    from harness.check.checks import EngineCheck, engine_contract
    from harness.clicks.api import Interleaver, load_clicks
    from harness.shadow.api import Sides, Watched, load_shadow_log

__all__ = [
    "Collection", "Decided", "Difference", "Drawing", "EngineCheck", "Inference", "Interleaver",
    "Scored", "Sides", "Table", "Watched", "compare", "decide",
    "draw_differences", "draw_forest", "engine_contract",
    "load_clicks", "load_collection", "load_qrels", "load_run", "load_shadow_log", "log_to_mlflow",
    "near_duplicates", "save_collection", "score", "table",
]  # fmt: skip
HOMES = {
    "api.comparison": (
        "Difference", "Inference", "Scored", "compare", "near_duplicates", "score",
    ),
    "check.checks": ("EngineCheck", "engine_contract"),
    "api.data": ("Collection", "load_collection", "load_qrels", "load_run", "save_collection"),
    "api.decision": ("Decided", "decide", "log_to_mlflow"),
    "api.drawing": ("Drawing", "draw_differences", "draw_forest"),
    "clicks.api": ("Interleaver", "load_clicks"),
    "shadow.api": ("Sides", "Watched", "load_shadow_log"),
    "api.paper_table": ("Table", "table"),
}  # fmt: skip
"""Names by the module that has them; of this package, or of a slice that may be absent."""
_HOME_OF = {name: home for home, names in HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Return a public name, from the module that has it."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from harness.core.parts import part

    return getattr(part(*_HOME_OF[name].split(".")), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
