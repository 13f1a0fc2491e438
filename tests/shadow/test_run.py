"""Queries through a live comparison, offline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from harness.agreement import RankPair, classify
from harness.core.errors import DatasetError, EvidenceError, InvalidArm
from harness.core.records import Query
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.pipeline.receipts import read_manifest
from harness.shadow import log
from harness.shadow.comparison import ShadowLog, ShedReason
from harness.shadow.record import query_key
from harness.shadow.settings import ComparisonSettings, read_settings
from harness.shadow.stage import Ran, mixed, shadow_run, titles
from tests.make.toy import CANDIDATE, CONTROL, Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow
SETTINGS = read_settings(ROOT / "policy" / "shadow.toml")
PAIR = CONTROL, CANDIDATE
K = 50


def run(
    toy: Toy,
    folder: Path,
    count: int,
    settings: ComparisonSettings = SETTINGS,
    *,
    per_second: float = 0.0,
    queries: Sequence[Query] | None = None,
    pair: tuple[str, str] = PAIR,
) -> Ran:
    return shadow_run(
        toy.layout,
        pair,
        toy.cache,
        ShadowLog(folder, settings),
        Prepared.open(toy.layout.data).queries() if queries is None else queries,
        count=count,
        k=K,
        per_second=per_second,
    )


def narrow(**limits: float) -> ComparisonSettings:
    """Change some limits."""
    return SETTINGS.model_copy(update={"limits": SETTINGS.limits.model_copy(update=limits)})


def test_each_pair_is_in_the_class_that_a_replay_of_it_has(project: Toy, tmp_path: Path) -> None:
    queries = Prepared.open(project.layout.data).queries()
    ran = run(project, tmp_path / "log", len(queries))
    found = log.read_logs(tmp_path / "log")
    control, candidate = (read_run(project.layout.run(arm)) for arm in PAIR)
    pair = RankPair.of(control, candidate)
    classes = classify(control, candidate, pair, depth=K, shed=(), stale=())
    replayed = dict(zip(pair.query_ids, classes, strict=True))
    by_key = {query_key(query.text, query.params): query for query in queries}
    assert len(found.observations) == ran.counts.served == len(queries)
    for one in found.observations:
        query = by_key[one.query]
        assert one.outcome is replayed[query.query_id]
        assert one.slices == query.slices
        assert one.control is not None
        assert one.candidate is not None
        served_by = (one.control.served_by, one.candidate.served_by)
        assert served_by == tuple(read_manifest(project.layout, arm).fingerprint for arm in PAIR)


def test_without_a_rate_nothing_is_shed(project: Toy, tmp_path: Path) -> None:
    """However narrow the queue, and however little of a minute the candidate may have."""
    ran = run(project, tmp_path / "log", 60, narrow(queue=0, budget_s=0.000001))
    tally = log.read_logs(tmp_path / "log").tally
    assert (tally.attempted, tally.compared, tally.shed) == (60, 60, 0)
    assert ran.written
    assert ran.control_ns.shape == (60,)
    assert (ran.control_ns > 0).all()
    assert ran.elapsed_ns > int(np.sum(ran.control_ns))
    assert ran.per_second == 60 * 1e9 / ran.elapsed_ns


def test_with_a_rate_the_limits_hold(project: Toy, tmp_path: Path) -> None:
    """The candidate's process takes longer to start than all the questions take to come."""
    ran = run(project, tmp_path / "log", 60, narrow(queue=0), per_second=100_000)
    tally = log.read_logs(tmp_path / "log").tally
    assert tally.attempted == 60
    assert 0 < tally.shed == ran.counts.shed[ShedReason.IN_FLIGHT] < 60


def test_questions_do_not_come_before_their_time_and_a_log_goes_on(
    project: Toy, tmp_path: Path
) -> None:
    assert run(project, tmp_path / "log", 11, per_second=50).elapsed_ns >= 200_000_000
    assert run(project, tmp_path / "log", 5).counts.served == 5
    found = log.read_logs(tmp_path / "log")
    assert [one.number for one in found.observations] == list(range(1, 17))


def test_titles_are_questions_each_once(project: Toy) -> None:
    found = [query.text for query in titles(project.layout)]
    documents = Prepared.open(project.layout.data).documents()
    assert found == list(dict.fromkeys(one.title for one in documents if one.title))
    assert found


def test_a_sets_own_questions_come_mixed(project: Toy) -> None:
    own = Prepared.open(project.layout.data).queries()
    found = mixed(own, 7)
    assert found == mixed(own, 7)
    assert found != mixed(own, 8)
    assert found != own
    assert sorted(found, key=lambda one: one.query_id) == sorted(own, key=lambda one: one.query_id)


def test_what_cannot_be_compared_is_refused(project: Toy, tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="itself"):
        run(project, tmp_path / "log", 1, pair=(CONTROL, CONTROL))
    with pytest.raises(DatasetError, match="the query set is empty"):
        run(project, tmp_path / "log", 1, queries=())
    with pytest.raises(InvalidArm):
        run(project, tmp_path / "log", 1, pair=(CONTROL, "tantivy-stem"))
    (project.layout.data / "corpus.jsonl").write_text('{"_id": "a", "text": "no title"}\n')
    with pytest.raises(DatasetError, match="no document has a title"):
        titles(project.layout)


def test_a_question_that_the_control_cannot_answer_is_an_attempt(
    project: Toy, tmp_path: Path
) -> None:
    bad = Query("q", "bolo \ud800"), Query("r", "bolo")
    run(project, tmp_path / "log", 2, queries=bad)
    assert log.read_logs(tmp_path / "log").tally.attempted == 2
