"""Gates tried on runs that are there, where the truth is known."""

from __future__ import annotations

from harness.policy.model import Policy
from harness.policy.selftest import Tried, selftest
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
