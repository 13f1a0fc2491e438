"""What ``harness decompose`` took apart is kept for the explorer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.core.errors import BadFile
from harness.core.records import Query
from harness.measures.decompose import Parts
from harness.pipeline.decompose import keep, kept
from harness.pipeline.layout import Layout
from harness.report.explorer_stages import Decomposed
from harness.report.inputs import Step


def layout(root: Path) -> Layout:
    return Layout(root / "build", root / "perf", root / "cache")


def decomposed(*names: str) -> Decomposed:
    parts = Parts(("q1", "q2"), np.array([-0.25, 0.0]), np.array([0.0, 0.125]))
    return Decomposed(
        dataset="toy",
        names=(names[0], names[1]),
        measure="nDCG@10",
        queries=(Query("q1", "one"), Query("q2", "two")),
        control=np.array([0.75, 0.5]),
        candidate=np.array([0.5, 0.625]),
        steps={"words": parts},
        beside={},
        moved=(),
        level=0.05,
        lost={},
    )


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    place = layout(tmp_path)
    assert kept(place) == ()
    keep(place, decomposed("a", "b"))
    keep(place, decomposed("a", "c"))
    keep(place, replace(decomposed("a", "b"), measure="RR@10"))
    first, second = kept(place)
    assert [(one.control, one.candidate, one.measure) for one in (first, second)] == [
        ("a", "b", "RR@10"), ("a", "c", "nDCG@10"),
    ]  # fmt: skip
    assert first.stages == ("words",)
    assert first.values == {"q1": (0.75, 0.5), "q2": (0.5, 0.625)}
    assert first.steps == {"q1": (Step(-0.25, 0.0),), "q2": (Step(0.0, 0.125),)}


def test_a_broken_file_is_named_with_its_hint(tmp_path: Path) -> None:
    place = layout(tmp_path)
    keep(place, decomposed("a", "b"))
    (file,) = (tmp_path / "perf" / "apart").iterdir()
    file.write_text("{")
    with pytest.raises(
        BadFile, match=r"a~b\.json:1: not a difference by stage .*harness decompose"
    ):
        kept(place)
