"""The look-up as one loop: plain here, and in machine code where numba is installed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from harness.measures import columns, kernels
from harness.measures.columns import EncodedQrels, Lookup
from harness.measures.kernels import Graded
from harness.measures.name import COMMON
from harness.measures.quality import score
from tests.make.runs import qrels_of, random_case


def machine_code() -> Callable[..., int]:
    """Skip where the extra is not installed."""
    found = columns.probe()
    if found is None:
        pytest.skip("numba is not installed; it is the extra fast")
    return found


@pytest.mark.parametrize("through", [lambda: columns.walk, machine_code])
def test_finds_the_same_hits(
    through: Callable[[], Callable[..., int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, qrels = random_case(1)
    crowd = {"q0": {f"d{at}": 1 for at in range(600)}}
    fewer = {q: docs for q, docs in qrels.grades.items() if q not in {"q3", "q17"}} | crowd
    coded = EncodedQrels.of(qrels_of(fewer))
    assert len(coded.lookup.levels) > 1
    wanted = Graded.of(run, coded)
    values = score(run, qrels, COMMON, run.query_ids)
    loop = through()
    monkeypatch.setattr(kernels, "WORTH_COMPILING", 1)
    monkeypatch.setattr(kernels, "probe", lambda: loop)
    found = Graded.of(run, coded)
    for name in ("row", "rank", "grade", "lengths"):
        assert getattr(found, name).tolist() == getattr(wanted, name).tolist()
    again = score(run, qrels, COMMON, run.query_ids)
    assert {n: dict(s.by_query) for n, s in again.items()} == {
        n: dict(s.by_query) for n, s in values.items()
    }


def test_pairs_without_a_slot_are_searched_for() -> None:
    docs = np.arange(3000, dtype=np.int32)
    lookup = Lookup.of(np.zeros(3000, dtype=np.int64), docs, 900)
    assert len(lookup.keys) > 0
    asked = np.array([2999, 5, 4000, 17], dtype=np.int32)
    rows, offsets = np.array([0, 1]), np.array([0, 3, 4])
    place, pair = columns.find(lookup, rows, offsets, asked, columns.walk)
    assert (place.tolist(), pair.tolist()) == ([0, 1], [2999, 5])


def test_no_judgement_is_nothing_found() -> None:
    none = np.empty(0, dtype=np.int64)
    empty = Lookup.of(none, none.astype(np.int32), 1)
    asked = np.array([0]), np.array([0, 1]), np.array([0], dtype=np.int32)
    place, pair = columns.find(empty, *asked, columns.walk)
    assert (place.tolist(), pair.tolist()) == ([], [])
