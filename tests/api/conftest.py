"""Three small runs over one set of queries: a control, one that gains and one that loses."""

from typing import NamedTuple

import pytest

from harness.api.comparison import Inference
from harness.core.records import Qrels
from harness.core.run import Run
from tests.make.runs import qrels_of, run_of

SURE = Inference(confidence=0.95, resamples=1_000, seed=5)
QUERIES = tuple(f"q{at:02}" for at in range(30))


class Small(NamedTuple):
    """Runs and what they are judged by."""

    qrels: Qrels
    control: Run
    better: Run
    worse: Run


@pytest.fixture
def small() -> Small:
    """Document ``a`` answers every query; the control shows it second, one first, one never."""
    return Small(
        qrels_of({query_id: {"a": 1, "b": 0} for query_id in QUERIES}),
        run_of({query_id: ["b", "a", "c"] for query_id in QUERIES}, "control"),
        run_of({q: ["a", "b"] if at % 3 else ["b", "a"] for at, q in enumerate(QUERIES)}, "better"),
        run_of({q: ["b", "c"] if at % 2 else ["b", "a"] for at, q in enumerate(QUERIES)}, "worse"),
    )
