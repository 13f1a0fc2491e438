"""Gates tried on runs that are there, where the truth is known."""

from __future__ import annotations

from harness.policy.model import Policy
from harness.policy.selftest import Tried, selftest
from harness.stages.custody.crosscheck import check_agreements, check_values
from harness.stages.evidence import gathered, pairs_of, sides
from harness.stages.layout import Layout


def try_gates(layout: Layout, policy: Policy, *, trials: int) -> tuple[Tried, ...]:
    """Try the gates of ``policy`` on the runs in ``layout``.

    Raises:
        EvidenceError: an arm was not measured or a pair not compared, or something was changed
            since; or there are too few queries.
    """
    arms = sides(layout, policy.arms)
    evidence = gathered(layout, pairs_of(policy), arms, None, policy.clusters)
    return selftest(policy, evidence, trials=trials)


def check_kernels(layout: Layout, policy: Policy) -> tuple[int, int]:
    """Count how many values and pairs of rankings other code gave as they are in ``layout``.

    Raises:
        EvidenceError: one is another; or an arm was not measured.
    """
    second = check_values(layout)
    values = sum(len(one.query_ids) for of in second.values() for one in of.values())
    return values, check_agreements(layout, pairs_of(policy).values())
