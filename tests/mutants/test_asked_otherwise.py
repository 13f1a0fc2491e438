"""Arms that were asked otherwise than the other, or than they say: none of it is judged."""

from __future__ import annotations

import pytest

from harness.core.engine import Searcher
from harness.core.errors import EvidenceError
from harness.core.gate import Verdict
from harness.core.records import Query
from harness.pipeline.compare import compare
from harness.pipeline.evidence import pairs_of
from harness.pipeline.replay import replay
from harness.replay import drive
from harness.replay.drive import TimedOutcome, observe
from tests.make.planted import blocking
from tests.make.toy import CANDIDATE, GATES, HEAD, STEP, Toy

pytestmark = pytest.mark.slow
DEMANDS = "\n[policy.evidence]\n"


def test_a_candidate_that_is_asked_for_half_as_many_hits(planted: Toy) -> None:
    half = planted.params.replay.model_copy(update={"k": planted.params.replay.k // 2})
    replay(planted.layout, CANDIDATE, planted.cache, half)
    planted.judge_again()
    found = blocking(planted.decide())
    assert found["Quality"].verdict is Verdict.INCONCLUSIVE
    assert "fts5: 50 hits within 10 s; tantivy: 25 hits" in found["Quality"].reason


def test_a_harness_that_asks_for_half_of_what_it_says(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(searcher: Searcher, query: Query, k: int, limit_ns: int) -> TimedOutcome:
        return observe(searcher, query, k // 2, limit_ns)

    monkeypatch.setattr(drive, "observe", half)
    with pytest.raises(EvidenceError, match=r"for 25 hits a query.* but replay\.k is 50"):
        replay(planted.layout, CANDIDATE, planted.cache, planted.params.replay)


def test_agreements_of_another_depth_than_the_policy_demands(planted: Toy) -> None:
    planted.policy(HEAD + DEMANDS + "k = 50\ntime_limit_s = 10\ndepth = 50\n" + STEP + GATES)
    assert not planted.decide().blocking
    params = planted.params
    shallow = params.compare.model_copy(update={"depths": (10, 20)})
    pairs = tuple(pairs_of(planted.project.policy()).values())
    compare(planted.layout, pairs, shallow, params.score.inference())
    found = blocking(planted.decide())
    assert "computed at a depth of 20; the policy demands 50" in found["Order"].reason
