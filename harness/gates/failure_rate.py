"""Few queries may fail, time out or not run, in the candidate and in the control."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.core.errors import EvidenceError
from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import Finding
from harness.core.printable import many
from harness.core.run import Status
from harness.gates.base.queries import ShareSettings, judge_shares
from harness.gates.base.rules import Rules, some


class FailureRateSettings(ShareSettings):
    """The share of queries that were not answered must lie below ``max_share``."""

    @property
    def bound(self) -> str:
        return f"fewer than {self.max_share:.2%} of the queries go unanswered, in each arm"


def judge(name: str, settings: FailureRateSettings, evidence: Evidence, rules: Rules) -> Finding:
    """PASS where the intervals of both arms lie below the bound; an empty answer is an answer."""
    found = [(side, *_unanswered(side)) for side in (evidence.control, evidence.candidate)]
    return judge_shares(name, settings, found, evidence.clusters, rules)


def _unanswered(side: ArmResult) -> tuple[NDArray[np.bool_], str]:
    """Return which queries have no answer, shape (queries,), and how they ended."""
    run = side.run
    answered = run.status == Status.ANSWERED
    wrong = tuple(
        query_id
        for query_id, fine, error, hits in zip(
            run.query_ids, answered, run.errors, run.lengths, strict=True
        )
        if (error if fine else hits)
    )
    if wrong:
        raise EvidenceError(
            f"{run.arm}: {many(len(wrong), 'query')} ({some(wrong)}) got an answer with an error,"
            " or"
            " failed with hits; an error is not an empty answer: replay the arm"
        )
    ways = [
        (run.count(status), word)
        for status, word in (
            (Status.FAILED, "failed"),
            (Status.TIMED_OUT, "timed out"),
            (Status.NOT_ASKED, "were not asked"),
        )
    ]
    said = ", ".join(f"{count} {word}" for count, word in ways if count)
    unanswered = f"went unanswered ({said})" if said else "went unanswered"
    return ~answered, ", ".join(filter(None, (unanswered, run.repeated)))
