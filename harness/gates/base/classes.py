"""Compared and uncompared queries; the latter never count as equal."""

from __future__ import annotations

from collections.abc import Mapping

from harness.agreement.classes import UNCOMPARED, Class
from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement, Evidence
from harness.core.printable import many
from harness.core.run import Status
from harness.gates.base.rules import some

COMPARED = frozenset(Class) - UNCOMPARED
ANSWERED = Status.ANSWERED
NEVER_TRIED = "never tried"


def class_of(evidence: Evidence) -> Mapping[str, str]:
    """Class of each query that was tried (method, section 3).

    Raises:
        EvidenceError: a query has two classes or an unknown one, or an agreement without a
            comparison. Or it counts as compared although an arm did not answer it, or was passed
            over although both did.
    """
    agreement = evidence.agreement
    found = dict(zip(agreement.query_ids, agreement.classes, strict=True))
    if len(found) != len(agreement.query_ids):
        raise EvidenceError("a query was compared twice; compare the two runs once more")
    unknown = set(found.values()) - frozenset(Class)
    if unknown:
        raise EvidenceError(f"no such class of agreement: {some(tuple(sorted(unknown)))}")
    for run in (evidence.control.run, evidence.candidate.run):
        silent = tuple(
            query_id
            for query_id, status in zip(run.query_ids, run.status, strict=True)
            if status != Status.ANSWERED and found.get(query_id) in COMPARED
        )
        if silent:
            raise EvidenceError(
                f"{run.arm} did not answer {many(len(silent), 'query')} that count as compared"
                f" ({some(silent)}); an error is not an empty answer: compare the runs once more"
            )
    _no_values_without_comparison(agreement, found)
    _nothing_passed_over(evidence, found)
    return found


def _nothing_passed_over(evidence: Evidence, found: Mapping[str, str]) -> None:
    """Refuse queries that both arms answered and that were skipped, shed, stale or never tried."""
    answered = (
        {q for q, status in zip(run.query_ids, run.status, strict=True) if status == ANSWERED}
        for run in (evidence.control.run, evidence.candidate.run)
    )
    both = frozenset.intersection(*map(frozenset, answered))
    passed = tuple(sorted(q for q in both if found.get(q) not in COMPARED))
    if passed:
        whys = ", ".join(sorted({found.get(q, NEVER_TRIED) for q in passed}))
        raise EvidenceError(
            f"{many(len(passed), 'query')} that both arms answered were not compared"
            f" ({some(passed)}: {whys}); compare the runs once more"
        )


def _no_values_without_comparison(agreement: Agreement, found: Mapping[str, str]) -> None:
    for name, scores in agreement.scores.items():
        wrong = tuple(q for q in scores.query_ids if found.get(q) not in COMPARED)
        if wrong:
            raise EvidenceError(
                f"{many(len(wrong), 'query has')} a {name} and no comparison ({some(wrong)});"
                " a skipped comparison is not an equal one: compare the runs once more"
            )
