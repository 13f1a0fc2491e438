"""Figures are written in three formats, the same each time."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.api.comparison import Inference, compare, leaderboard
from harness.api.drawing import Drawing, draw_differences, draw_forest
from harness.core.errors import HarnessError
from harness.report.rounding import MINUS
from tests.api.conftest import Small

pytestmark = pytest.mark.slow
BEGINS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


@pytest.fixture
def drawings(small: Small, sure: Inference) -> tuple[Drawing, Drawing]:
    apart = compare(small.control, small.worse, small.qrels, "RR@10", sure=sure)
    board = leaderboard(small.control, small.candidates, small.qrels, ["RR@10", "P@1"], sure=sure)
    return draw_differences(apart), draw_forest(board)


@pytest.mark.parametrize("kind", BEGINS)
def test_each_format_is_what_it_says_and_the_same_twice(
    drawings: tuple[Drawing, Drawing], tmp_path: Path, kind: str
) -> None:
    for at, drawing in enumerate(drawings):
        for name in ("one", "two"):
            drawing.save(tmp_path / f"{name}{at}.{kind}")
        one, two = ((tmp_path / f"{name}{at}.{kind}").read_bytes() for name in ("one", "two"))
        assert one.startswith(BEGINS[kind])
        assert one == two


def test_what_is_drawn_is_said(drawings: tuple[Drawing, Drawing]) -> None:
    differences, forest = (drawing._repr_svg_() for drawing in drawings)
    assert "RR@10: worse - control" in differences
    assert f"mean {MINUS}0.25" in differences
    assert "better †" in forest
    assert "P@1, difference from control" in forest
    assert [repr(drawing) for drawing in drawings] == [
        "Differences of RR@10 by query, worse - control",
        "Differences from control of RR@10, P@1, with intervals",
    ]


def test_another_ending_is_refused(drawings: tuple[Drawing, Drawing], tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"a\.gif"):
        drawings[0].save(tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())
