"""A machine that judges must agree with people, or none of its labels is used."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from harness.core.clusters import codes
from harness.core.evidence import Evidence
from harness.core.gate import Cause, Finding, Verdict
from harness.core.names import Name
from harness.core.printable import many
from harness.core.scores import Estimate
from harness.gates.base.rules import GateSettings, MinQueries, Rules, Where, above, plain
from harness.stats.raters.kappa import FEWEST, kappa


class Settings(GateSettings):
    """Kappa of the machine ``judge`` and of people must lie above ``min_kappa``."""

    judge: Name
    """The machine's name, as its labels have it."""
    weights: Literal["none", "linear", "quadratic"]
    """What a disagreement weighs: 1, the distance of the two grades, or its square."""
    min_kappa: Annotated[float, Field(ge=-1, lt=1)]
    min_queries: MinQueries

    @property
    def bound(self) -> str:
        return f"{self.judge} and people agree in a kappa above {self.min_kappa:g}"

    @property
    def passes(self) -> Where:
        return "above"

    @property
    def limit(self) -> float:
        return self.min_kappa

    @property
    def required_queries(self) -> int:
        return self.min_queries

    @property
    def unit(self) -> str:
        return "kappa"


def judge(name: str, settings: Settings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the whole interval lies above the bound, else INCONCLUSIVE; never FAIL.

    A machine that errs says nothing of the candidate, so it takes no step back. Compared are the
    pairs that both judged, people by the judgements of the data set.
    """
    machine = evidence.labels.get(settings.judge)
    people = evidence.qrels
    if machine is None or people is None:
        return settings.undecided(
            name,
            Cause.NO_EVIDENCE,
            f"labels of {settings.judge} were not taken in",
            f"take them in: harness labels FILE --dataset {evidence.dataset}",
        )
    both = [
        (query_id, people.grades[query_id][doc_id], grade)
        for query_id, doc_id, grade in machine.rows()
        if doc_id in people.grades.get(query_id, {})
    ]
    queries = sorted({query_id for query_id, _, _ in both})
    clusters = codes(queries, evidence.clusters) if queries else None
    groups = len(queries) if clusters is None else len(np.unique(clusters))
    if groups < max(settings.min_queries, FEWEST):
        return settings.undecided(
            name,
            Cause.TOO_FEW,
            f"people and {settings.judge} both judged documents of {groups} independent queries,"
            f" and {max(settings.min_queries, FEWEST)} are needed; its labels are not used",
            f"let people judge more of what {settings.judge} judged",
        )
    place = {query_id: at for at, query_id in enumerate(queries)}
    at = np.array([place[query_id] for query_id, _, _ in both])
    found = kappa(
        np.array([grade for _, grade, _ in both]),
        np.array([grade for _, _, grade in both]),
        at if clusters is None else clusters[at],
        confidence=rules.confidence,
        weights=settings.weights,
    )
    fine = trusted(found, settings.min_kappa)
    used = "are used" if fine else "are not used: the agreement is not surely above the bound"
    return settings.finding(
        name,
        Verdict.PASS if fine else Verdict.INCONCLUSIVE,
        f"{settings.judge} and people: kappa {plain(found)} over {many(found.n, 'document')} of"
        f" {many(len(queries), 'query')}; its labels {used}",
        estimate=found,
        remedy="judge by people alone, or give the machine better instructions or another model",
    )


def trusted(agreement: Estimate, min_kappa: float) -> bool:
    """Tell whether the labels of a machine may be used at all."""
    return above(agreement, min_kappa) is Verdict.PASS
