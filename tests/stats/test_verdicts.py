"""The table of verdicts: a few trials of its cells, and the faults that it must show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import verdicts
from benchmarks.verdict_families import FAMILIES, Draws, Family
from benchmarks.verdict_questions import Mean, Sample

RARE = next(one for one in FAMILIES if one.name == "rare total losses")


@pytest.mark.slow
@pytest.mark.simulation
@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda one: one.name)
def test_a_sample_of_each_cell_is_judged_by_the_gate_itself(family: Family) -> None:
    found = verdicts.cell(family, 75, 12, "test")
    assert 0 <= found.low <= found.false <= found.high <= 1


def test_a_family_that_keeps_its_level_is_not_above_and_a_lie_is() -> None:
    kept = verdicts.cell(RARE, 400, 400, "test")
    assert not kept.broken
    assert 0 < kept.power < 1
    lie = Family("T", "a gain", Mean(), lambda _, of: Sample(np.full((of.n, of.trials), 0.1)))
    assert verdicts.cell(lie, 200, 12, "test").broken


def test_a_batch_that_is_not_the_gate_is_refused() -> None:
    class Wrong(Mean):
        def passes(self, drawn: Sample) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
            return np.ones(drawn.values.shape[1], dtype=bool)

    with pytest.raises(AssertionError, match="the gate itself says inconclusive, the batch True"):
        verdicts.cell(replace(RARE, question=Wrong()), 30, 12, "test")


def test_cells_on_disk_are_kept_while_the_code_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "verdicts.json"

    def made(families: Sequence[Family]) -> list[verdicts.Cell]:
        return verdicts.cells(families, (30,), 12, out, 1)

    first = made([RARE])
    assert made([RARE]) == first
    monkeypatch.setattr(verdicts, "code_digest", lambda: "other")
    (again,) = made([RARE])
    assert (again.code, again.false) == ("other", first[0].false)


def test_a_broken_premise_holds_where_it_is_undeclared_and_not_where_nobody_asks() -> None:
    lie = Family("T", "a gain", Mean(), lambda _, of: Sample(np.full((of.n, of.trials), 0.1)))
    held = verdicts.cell(replace(lie, premise="drawn"), 200, 12, "test")
    assert (held.false, held.declared, held.premise) == (0.0, 1.0, "premise: drawn")
    assert not held.broken
    assert verdicts.cell(replace(lie, premise="moon"), 200, 12, "test").broken


def test_draws_are_those_of_their_seed() -> None:
    one, same = (RARE.draw(np.random.default_rng(1), Draws(30, 4, equal=True)) for _ in range(2))
    assert (one.values == same.values).all()


def test_the_table_names_what_is_above_and_what_was_before() -> None:
    cell = replace(verdicts.cell(RARE, 30, 12, "test"), false=0.5, low=0.3, high=0.7)
    before = {(cell.family, cell.size): replace(cell, false=0.9)}
    *_, line = verdicts.lines([cell], before)
    assert "| 90.0% | 50.00% |" in line
    assert "**above**" in line
