"""shadow_run: questions through a live comparison, offline."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.agreement import Pair, classify
from harness.core.errors import DatasetError, EvidenceError, InvalidArm
from harness.core.records import Query
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.pipeline.receipts import read_manifest
from harness.shadow import log
from harness.shadow.comparison import Settings, ShadowLog
from harness.shadow.files import read_settings
from harness.shadow.limits import Reason
from harness.shadow.record import query_key
from harness.shadow.run import Asking, Ran, mixed, shadow_run, titles
from tests.make.toy import CANDIDATE, CONTROL, Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow

SETTINGS = read_settings(ROOT / "policy" / "shadow.toml")
PAIR = CONTROL, CANDIDATE
K = 50


def asking(toy: Toy, count: int, per_second: float = 0.0) -> Asking:
    return Asking(Prepared.open(toy.layout.data).queries(), count, K, per_second)


def run(toy: Toy, folder: Path, wanted: Asking, settings: Settings = SETTINGS) -> Ran:
    return shadow_run(toy.layout, PAIR, toy.cache, ShadowLog(folder, settings), wanted)


def narrow(**limits: float) -> Settings:
    """Change some limits."""
    return SETTINGS.model_copy(update={"limits": SETTINGS.limits.model_copy(update=limits)})


def test_each_pair_is_in_the_class_that_a_replay_of_it_has(project: Toy, tmp_path: Path) -> None:
    queries = Prepared.open(project.layout.data).queries()
    ran = run(project, tmp_path / "log", asking(project, len(queries)))
    found = log.read_logs(tmp_path / "log")
    control, candidate = (read_run(project.layout.run(arm)) for arm in PAIR)
    pair = Pair.of(control, candidate)
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
    ran = run(project, tmp_path / "log", asking(project, 60), narrow(queue=0, budget_s=0.000001))
    tally = log.read_logs(tmp_path / "log").tally
    assert (tally.attempted, tally.compared, tally.shed) == (60, 60, 0)
    assert ran.written
    assert ran.control_ns.shape == (60,)
    assert (ran.control_ns > 0).all()
    assert ran.elapsed_ns > int(np.sum(ran.control_ns))
    assert ran.per_second == 60 * 1e9 / ran.elapsed_ns


def test_with_a_rate_the_limits_hold(project: Toy, tmp_path: Path) -> None:
    """The candidate's process takes longer to start than all the questions take to come."""
    wanted = asking(project, 60, per_second=100_000)
    ran = run(project, tmp_path / "log", wanted, narrow(queue=0))
    tally = log.read_logs(tmp_path / "log").tally
    assert tally.attempted == 60
    assert 0 < tally.shed == ran.counts.shed[Reason.IN_FLIGHT] < 60


def test_questions_do_not_come_before_their_time(project: Toy, tmp_path: Path) -> None:
    wanted = asking(project, 11, per_second=50)
    assert wanted.step_ns == 20_000_000
    assert run(project, tmp_path / "log", wanted).elapsed_ns >= 200_000_000


def test_a_log_goes_on(project: Toy, tmp_path: Path) -> None:
    for _ in range(2):
        assert run(project, tmp_path / "log", asking(project, 5)).counts.served == 5
    found = log.read_logs(tmp_path / "log")
    assert [one.number for one in found.observations] == list(range(1, 11))


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


def test_a_set_without_titles_says_so(project: Toy) -> None:
    corpus = project.layout.data / "corpus.jsonl"
    corpus.write_text('{"_id": "a", "text": "no title"}\n')
    with pytest.raises(DatasetError, match="no document has a title"):
        titles(project.layout)


def test_what_cannot_be_compared_is_refused(project: Toy, tmp_path: Path) -> None:
    log = ShadowLog(tmp_path / "log", SETTINGS)
    with pytest.raises(EvidenceError, match="itself"):
        shadow_run(project.layout, (CONTROL, CONTROL), project.cache, log, asking(project, 1))
    with pytest.raises(DatasetError, match="the query set is empty"):
        run(project, tmp_path / "log", replace(asking(project, 1), queries=()))
    pair = CONTROL, "tantivy-stem"
    with pytest.raises(InvalidArm):
        shadow_run(project.layout, pair, project.cache, log, asking(project, 1))


def test_a_question_that_the_control_cannot_answer_is_an_attempt(
    project: Toy, tmp_path: Path
) -> None:
    bad = Asking((Query("q", "bolo \ud800"), Query("r", "bolo")), 2, K, 0.0)
    run(project, tmp_path / "log", bad)
    assert log.read_logs(tmp_path / "log").tally.attempted == 2
