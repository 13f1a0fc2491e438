"""Differences of two arms whose mean is known, made as those of nDCG@10 are.

Most queries do not move, and those that do move by one of a few steps. ``real`` draws them from the
differences of two arms that ``harness demo`` has scored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.core.engine import Hit, Manifest
from harness.core.evidence import Agreement, ArmResult, Evidence
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores
from harness.corpus.score_table import read_scores

SEED, CONFIDENCE, RESAMPLES = 20_261_122, 0.95, 2_000
STEPS = np.array([1.0, 0.6309, 0.5, 0.4307, 0.3691, 0.1309, 0.0693])
OFTEN = np.array([0.10, 0.10, 0.10, 0.15, 0.25, 0.15, 0.15])

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]


@dataclass(frozen=True, slots=True)
class Case:
    """Differences whose mean is known."""

    name: str
    mean: float
    draw: Draw


def steps(name: str, rises: float, falls: float) -> Case:
    """Most differences are 0; the others rise or fall by one of the steps."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        sign = rng.choice([1.0, -1.0, 0.0], shape, p=[rises, falls, 1 - rises - falls])
        moved: Floats = sign * rng.choice(STEPS, shape, p=OFTEN)
        return moved

    return Case(name, (rises - falls) * float(STEPS @ OFTEN), draw)


def losing(margin: float) -> Case:
    """Give differences whose mean is exactly ``-margin``."""
    gap = margin / float(STEPS @ OFTEN)
    return steps(f"mean {-margin:g}", 0.2 - gap / 2, 0.2 + gap / 2)


def skewed() -> Case:
    """Many small gains and a tail of losses."""
    return Case("skewed", 0.0, lambda rng, shape: 0.1 - 0.1 * rng.exponential(size=shape))


def real(path: Path, pair: tuple[str, str]) -> Case:
    """Differences of two arms, drawn with replacement."""
    found = read_scores(path, ["arm"])
    left, right = (found[(arm,)]["nDCG@10"].by_query for arm in pair)
    seen = np.array([right[q] - left[q] for q in left if q in right])
    return Case(
        f"real, {pair[1]} - {pair[0]}",
        float(seen.mean()),
        lambda rng, shape: rng.choice(seen, shape),
    )


def cases() -> tuple[Case, ...]:
    """Give what differences may look like."""
    return (
        steps("60 % zero, the rest tied", 0.2, 0.2),
        steps("80 % zero", 0.12, 0.08),
        steps("90 % zero", 0.05, 0.05),
        skewed(),
    )


def evidence_of(differences: Floats) -> Evidence:
    """Two arms that answered everything as well as can be, with these differences of nDCG@10."""
    ids = tuple(f"q{at}" for at in range(len(differences)))
    control = side("control", ids, 1 - np.maximum(0.0, differences))
    candidate = side("candidate", ids, 1 - np.maximum(0.0, -differences))
    agreement = Agreement((), (), {})
    why = "scores alone are made here"
    return Evidence(
        "made", control, candidate, agreement, agreement, {}, {}, {}, None, complete=why
    )


def side(arm: str, ids: tuple[str, ...], values: Floats) -> ArmResult:
    """One arm; nobody looks at its hits."""
    manifest = Manifest(arm, "1", 1, "made", arm)
    hit = (Hit("d", 1.0, 1.0),)
    run = Run.of(arm, [Row(ids[0], Status.ANSWERED, hit, manifest.fingerprint)])
    return ArmResult(arm, manifest, run, {"nDCG@10": Scores("nDCG@10", ids, values, {})})
