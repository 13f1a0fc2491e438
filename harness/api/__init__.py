"""The harness from Python: read runs and judgements, score, compare, decide.

Nothing is computed here a second time: each function calls what the stages call, so a number in a
notebook is the number of the report. Results are frozen, draw themselves in a notebook, and give
a frame of pandas when they are asked for one. It is a package of its own, and not in
``harness/__init__.py``, since every stage of the pipeline rests on that file.
"""

from __future__ import annotations

from harness.api.board import Leaderboard, leaderboard
from harness.api.comparing import Difference, Sure, compare
from harness.api.deciding import Decided, decide
from harness.api.drawing import Drawing, draw_differences, draw_forest
from harness.api.loading import load_qrels, load_run
from harness.api.scoring import Scored, score

__all__ = [
    "Decided",
    "Difference",
    "Drawing",
    "Leaderboard",
    "Scored",
    "Sure",
    "compare",
    "decide",
    "draw_differences",
    "draw_forest",
    "leaderboard",
    "load_qrels",
    "load_run",
    "score",
]
