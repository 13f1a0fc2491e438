"""On queries without an answer, the candidate may not show more than the control."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import Finding
from harness.core.run import Status
from harness.core.scores import Scores
from harness.gates.base.completions import Bound
from harness.gates.base.differences import judge_mean
from harness.gates.base.queries import SampleSettings, checked
from harness.gates.base.rules import Depth, Rules, Share, Where

NEGATIVE = "negative_query"


class NegativesSettings(SampleSettings):
    """Of the first ``depth`` places, the share left empty may shrink by less than ``max_more``.

    The queries are those without a value of ``measure``, because no document is relevant.
    """

    passes: ClassVar[Where] = "above"
    slice: None = None
    depth: Depth
    max_more: Share

    @property
    def unit(self) -> str:
        return f"Empty@{self.depth}"

    @property
    def deepest(self) -> int:
        return max(super().deepest, self.depth)

    @property
    def bound(self) -> str:
        return f"fills less than {self.max_more:g} more of the first {self.depth} places"

    @property
    def limit(self) -> float:
        return -self.max_more


def judge(name: str, settings: NegativesSettings, evidence: Evidence, rules: Rules) -> Finding:
    """Judge the queries that no document answers, and no others (method, section 2).

    A query that fails is lost, not silent: a PASS must also hold with each counted as -1. If the
    control fills every page, any candidate passes.
    """
    empty, silent = emptiness(settings, evidence)
    bound = Bound(settings.limit)
    return judge_mean(name, empty, silent, rules, bound=bound, from_nothing=True)


def emptiness(
    settings: NegativesSettings, evidence: Evidence
) -> tuple[NegativesSettings, Evidence]:
    """Score negative queries by the share of places left empty, and name that as the measure."""
    empty = settings.model_copy(update={"measure": settings.unit})
    control, candidate = (
        replace(side, scores={empty.measure: _left_empty(side, settings)})
        for side in (evidence.control, evidence.candidate)
    )
    return empty, replace(evidence, control=control, candidate=candidate)


def _left_empty(side: ArmResult, settings: NegativesSettings) -> Scores:
    """Share of the first places that each answered negative query leaves empty."""
    negative = frozenset(
        checked(side.scores, settings.measure, side.arm).undefined.get(NEGATIVE, ())
    )
    run = side.run
    values: dict[str, float] = {}
    lost: list[str] = []
    for query_id, status, hits in zip(run.query_ids, run.status, run.lengths, strict=True):
        if query_id in negative and status == Status.ANSWERED:
            values[query_id] = 1 - min(int(hits), settings.depth) / settings.depth
        elif query_id in negative:
            lost.append(query_id)
    return Scores(
        settings.unit,
        tuple(values),
        np.array(list(values.values()), dtype=np.float64),
        {"failed": tuple(lost)} if lost else {},
    )
