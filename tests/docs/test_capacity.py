"""``docs/capacity.md``: its picture is drawn from its table, by the command on the page."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.capacity import ARMS, DECADES, draw, read
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "capacity.md"
PICTURE = ROOT / "docs" / "images" / "capacity.svg"
POINTS = re.compile(r'<use [^>]*x="([\d.]+)" y="([\d.]+)"')


def test_the_table_is_read_as_it_was_printed() -> None:
    decades = read(PAGE)
    assert [one.documents for one in decades] == [10.0**at for at in DECADES]
    assert all(len(one.hours) == len(one.gigabytes) == len(ARMS) for one in decades)
    assert decades[-1].money == max(one.money for one in decades) > 0
    assert decades[0].beyond == "nothing"


def test_the_picture_is_that_of_the_table(tmp_path: Path) -> None:
    draw(read(PAGE), tmp_path / "drawn.svg")
    drawn, kept = (
        [tuple(map(float, at)) for at in POINTS.findall(path.read_text("utf-8"))]
        for path in (tmp_path / "drawn.svg", PICTURE)
    )
    assert len(kept) > len(ARMS) * len(DECADES)
    assert len(drawn) == len(kept)
    assert all(
        abs(a - b) < 1
        for one, other in zip(drawn, kept, strict=True)
        for a, b in zip(one, other, strict=True)
    )
