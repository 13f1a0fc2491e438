"""ir-measures and sets count again, and a fault of ours is not believed."""

from __future__ import annotations

import numpy as np
import pytest

from harness import agreement
from harness.agreement import Pair, Partial, jaccard
from harness.core.errors import EvidenceError
from harness.measures import kernels
from harness.pipeline.verify import check_values, verify
from tests.make.planted import check_kernels
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


def test_all_of_it_is_counted(project: Toy) -> None:
    assert check_values(project.layout) == 3 * 4 * 41
    check_kernels(project)


def test_a_kernel_that_is_wrong(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = kernels.evaluate
    monkeypatch.setattr(kernels, "evaluate", lambda *given: np.minimum(honest(*given) + 1e-6, 1))
    project.judge_again(timed=True)
    project.decide()
    with pytest.raises(EvidenceError, match="but ir-measures says"):
        verify(project.layout)
    verify(project.layout, deep=False)


def test_an_overlap_that_is_wrong(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:

    def more(pair: Pair, depth: int) -> Partial:
        found = jaccard(pair, depth)
        return Partial(found.defined, np.minimum(found.values + 0.01, 1.0))

    monkeypatch.setattr(agreement, "jaccard", more)
    project.judge_again(timed=True)
    with pytest.raises(EvidenceError, match=r"Jaccard@10 of .* but the check gives"):
        check_kernels(project)
