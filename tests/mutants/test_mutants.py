"""Faults that real shadow comparators had, planted end to end (method, section 7).

Each test plants one fault in the production code, runs the stages up to the decision, and sees
that it is not PROMOTE and that the cause is named. ``test_without_a_fault`` is their control.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness import agreement
from harness.agreement import ABSENT, Class, Pair, Partial, classify
from harness.core.engine import Answer, Searcher
from harness.core.errors import EvidenceError, IndexNotReady, InvalidArm, MismatchedQueries
from harness.core.gate import Outcome
from harness.core.records import Query
from harness.core.run import Row, Run, Status
from harness.pipeline import race, report
from harness.pipeline import replay as stages_replay
from harness.pipeline.index import index
from harness.pipeline.layout import Layout
from harness.pipeline.replay import replay
from harness.replay import drive
from harness.replay import race as replay_race
from harness.replay.drive import TimedOutcome, observe
from harness_engines import registry as arms
from harness_engines.stacks.text.fts5 import Fts5
from harness_engines.stacks.text.tantivy import Tantivy, TantivySearcher
from tests.make.planted import HONEST, Search, blocking, check_kernels, measure
from tests.make.toy import CANDIDATE, CONTROL, GATES, HEAD, NAME, STEP, Toy

pytestmark = pytest.mark.slow
LOOSE = GATES.replace("max_share = 0.15", "max_share = 0.9")


def failing_on(one_in: int) -> Search:
    """Make an engine that breaks on some queries, always the same."""

    def search(searcher: TantivySearcher, text: str, k: int) -> Answer:
        if sum(text.encode()) % one_in == 0:
            raise ValueError("the index is not open")
        return HONEST(searcher, text, k)

    return search


def test_without_a_fault(project: Toy) -> None:
    project.measure(timed=True)
    assert project.decide().outcome is Outcome.PROMOTE


# 1. The control's timer also covers the candidate.


def test_1_the_control_asks_the_candidate_on_its_clock(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = replay_race.race

    class Both:
        """The control, which waits for the candidate too."""

        def __init__(self, control: Searcher, candidate: Searcher) -> None:
            self.manifest = control.manifest
            self._arms = control, candidate

        def search(self, text: str, k: int) -> Answer:
            control, candidate = self._arms
            candidate.search(text, k)
            return control.search(text, k)

    def covering(entrants: Mapping[str, Searcher], *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        spoilt = {
            arm: Both(searcher, entrants[CANDIDATE]) if arm == CONTROL else searcher
            for arm, searcher in entrants.items()
        }
        return honest(spoilt, *args, **kwargs)

    monkeypatch.setattr(race, "run_race", covering)
    project.layout.race_receipt.unlink()
    with pytest.raises(EvidenceError, match="the time of one arm covers another's"):
        project.race()
    assert set(blocking(project.decide())) == {"Speed"}


def test_1_the_clock_of_the_control_runs_on(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    last = 0

    def running_on(searcher: Searcher, query: Query, k: int, limit_ns: int) -> TimedOutcome:
        nonlocal last
        seen = observe(searcher, query, k, limit_ns)
        covers, last = seen.elapsed_ns + last, seen.elapsed_ns
        return replace(seen, elapsed_ns=covers)

    monkeypatch.setattr(replay_race, "observe", running_on)
    with pytest.raises(EvidenceError, match="the time of one arm covers another's"):
        project.race()


# 2. An error taken for an empty result, and the reverse.


def test_2_an_error_taken_for_an_empty_result(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(searcher: Searcher, query: Query, k: int, limit_ns: int) -> TimedOutcome:
        seen = observe(searcher, query, k, limit_ns)
        if seen.row.status is Status.FAILED:
            return replace(seen, row=Row(query.query_id, Status.ANSWERED))
        return seen

    planted.policy(HEAD + STEP + LOOSE.replace("margin = 0.15", "margin = 0.9"))
    monkeypatch.setattr(TantivySearcher, "search", failing_on(4))
    monkeypatch.setattr(drive, "observe", silent)
    with pytest.raises(InvalidArm, match=r"tantivy: \d+ of 41 answers .* by an unknown one"):
        measure(planted)


def test_2_an_error_that_is_kept_and_still_counted_as_an_answer(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(searcher: Searcher, query: Query, k: int, limit_ns: int) -> TimedOutcome:
        seen = observe(searcher, query, k, limit_ns)
        served_by = searcher.manifest.fingerprint
        return replace(seen, row=seen.row._replace(status=Status.ANSWERED, served_by=served_by))

    monkeypatch.setattr(TantivySearcher, "search", failing_on(4))
    monkeypatch.setattr(drive, "observe", half)
    measure(planted)
    with pytest.raises(EvidenceError, match=r"tantivy: .* got an answer with an error"):
        planted.decide()


def test_2_an_empty_result_taken_for_an_error(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strict(searcher: Searcher, query: Query, k: int, limit_ns: int) -> TimedOutcome:
        seen = observe(searcher, query, k, limit_ns)
        row = seen.row if seen.row.hits else Row(query.query_id, Status.FAILED, error="no hits")
        return replace(seen, row=row)

    planted.policy(HEAD + STEP + GATES.replace("max_share = 0.15", "max_share = 0.1"))
    measure(planted)
    assert planted.decide().outcome is Outcome.PROMOTE
    monkeypatch.setattr(drive, "observe", strict)
    measure(planted)
    said = blocking(planted.decide())["Answers"]
    assert "tantivy: 1 of 41 went unanswered (1 failed)" in said.reason


# 3. Candidate not initialised: comparison skipped, counted as equal.


def test_3_a_candidate_that_was_never_opened(planted: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TantivySearcher, "search", failing_on(1))
    with pytest.raises(InvalidArm, match=r"tantivy: not one of 41 queries .*is not open"):
        measure(planted)


def test_3_a_skipped_comparison_counted_as_equal(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def generous(*args: Any, **kwargs: Any) -> tuple[Class, ...]:  # noqa: ANN401
        found = classify(*args, **kwargs)
        return tuple(Class.EXACT if name is Class.ERROR else name for name in found)

    planted.policy(HEAD + STEP + LOOSE)
    monkeypatch.setattr(TantivySearcher, "search", failing_on(4))
    monkeypatch.setattr(agreement, "classify", generous)
    measure(planted)
    with pytest.raises(EvidenceError, match=r"query q\d+ is of class exact, but .* it is error"):
        check_kernels(planted)


def test_3_a_skipped_comparison_of_class_exact_alone(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.policy(HEAD + STEP + LOOSE)
    monkeypatch.setattr(TantivySearcher, "search", failing_on(4))
    measure(planted)
    path = planted.layout.classes
    table = pq.read_table(path)
    names = ["exact" if name == "error" else name for name in table["class"].to_pylist()]
    pq.write_table(table.set_column(3, "class", [names]), path)
    with pytest.raises(EvidenceError, match=r"classes\.parquet: was changed since"):
        planted.decide()


def test_3_queries_left_out_of_the_candidates_run(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_answered(*args: Any, **kwargs: Any) -> Run:  # noqa: ANN401
        run = drive.drive(*args, **kwargs)
        kept = Run.of(run.arm, [row for row in run.rows() if row.status is Status.ANSWERED])
        return replace(kept, conditions=run.conditions)

    monkeypatch.setattr(TantivySearcher, "search", failing_on(4))
    monkeypatch.setattr(stages_replay, "drive", only_answered)
    with pytest.raises((MismatchedQueries, EvidenceError), match="queries"):
        measure(planted)


# 6. Both arms resolve to the same engine (alias after a removal).


def test_6_an_alias_of_the_control(
    planted: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    honest = arms.path_of
    alias = tmp_path / f"{CANDIDATE}.toml"
    alias.write_text(honest(CONTROL).read_text())
    monkeypatch.setattr(arms, "path_of", lambda name: alias if name == CANDIDATE else honest(name))
    index(planted.layout, CANDIDATE, planted.cache)
    measure(planted)
    with pytest.raises(EvidenceError, match="fts5 and tantivy are the same engine: both are"):
        planted.decide()


def test_6_the_candidate_opens_the_controls_index(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = arms.load(CONTROL, planted.cache).engine
    assert isinstance(control, Fts5)

    @contextmanager
    def fallen_back(_: Tantivy, path: Path) -> Iterator[Searcher]:
        with control.open(path.with_name(CONTROL)) as searcher:
            yield searcher

    monkeypatch.setattr(Tantivy, "open", fallen_back)
    with pytest.raises(IndexNotReady, match=r"is not the index that .*tantivy\.json describes"):
        measure(planted)


def test_6_the_control_answers_for_the_candidate(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    control = arms.load(CONTROL, planted.cache).engine
    with control.open(planted.layout.index(CONTROL)) as serving:
        monkeypatch.setattr(TantivySearcher, "search", lambda _, text, k: serving.search(text, k))
        with pytest.raises(InvalidArm, match=r"tantivy: 41 of 41 answers were served by another"):
            measure(planted)


# 8. Stale evidence accepted.


def test_8_scores_of_an_earlier_run(planted: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TantivySearcher, "search", lambda s, text, _: HONEST(s, text, 1))
    replay(planted.layout, CANDIDATE, planted.cache, planted.params.replay)
    with pytest.raises(
        EvidenceError, match=r"tantivy\.parquet: was changed since .*harness stage score"
    ):
        planted.decide()


def test_8_a_comparison_of_an_earlier_run(planted: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = {path: path.read_bytes() for path in planted.layout.compare_receipt.parent.iterdir()}
    monkeypatch.setattr(TantivySearcher, "search", lambda s, text, _: HONEST(s, text, 1))
    measure(planted)
    for path, content in compared.items():
        path.write_bytes(content)
    with pytest.raises(EvidenceError, match=r"was changed since .*harness stage compare"):
        planted.decide()


def test_8_a_race_of_last_week(project: Toy) -> None:
    path = project.layout.times
    table = pq.read_table(path)
    week = (datetime.now(UTC) - timedelta(days=7)).isoformat()
    about = {**(table.schema.metadata or {}), b"raced_at": week.encode()}
    pq.write_table(table.replace_schema_metadata(about), path)
    with pytest.raises(EvidenceError, match="is 7 days old, and the policy takes none older than"):
        project.decide()


def test_8_a_race_of_another_run(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TantivySearcher, "search", lambda s, text, _: HONEST(s, text, 1))
    measure(project)
    with pytest.raises(EvidenceError, match="tantivy was replayed since the race"):
        project.decide()


# 12. A gate looser than the policy says.


def test_12_a_decision_written_by_hand(planted: Toy) -> None:
    planted.policy(HEAD + STEP + GATES.replace("floor = 0.6", "floor = 0.999"))
    assert set(blocking(planted.decide())) == {"Overlap"}
    written = json.loads(planted.layout.decision.read_text())
    step = written["datasets"][0]["steps"][0]
    step.update(verdict="pass", untimed_verdict="pass", outcome="promote", blocking=[])
    for finding in step["findings"]:
        finding.update(verdict="pass", cause="kept", settle="")
    planted.layout.decision.write_text(json.dumps(written))
    with pytest.raises(EvidenceError, match=r"decision\.json: was changed since"):
        pages(planted)


def test_12_a_policy_loosened_after_the_decision(planted: Toy) -> None:
    planted.decide()
    planted.policy(HEAD + STEP + GATES.replace("margin = 0.15", "margin = 0.5"))
    with pytest.raises(EvidenceError, match=r"toy\.toml: was changed since .*harness gate"):
        pages(planted)


def pages(project: Toy) -> None:
    """Write the pages of what was decided."""
    subjects: dict[Layout, Any] = {project.layout: project.project.subject(NAME)}
    report.report(subjects, project.root / "reports", project.root / "receipt.json")


# 14. Overlap over the smaller list, which hides truncation.


def test_14_overlap_over_the_smaller_list(planted: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def overlap(pair: Pair, depth: int) -> Partial:
        control, candidate = pair.lengths(depth)
        return Partial.ratio(pair.shared(depth), np.minimum(control, candidate).astype(np.float64))

    monkeypatch.setattr(TantivySearcher, "search", lambda s, text, _: HONEST(s, text, 2))
    measure(planted)
    assert "Overlap" in blocking(planted.decide())
    monkeypatch.setattr(agreement, "jaccard", overlap)
    measure(planted)
    with pytest.raises(EvidenceError, match=r"Jaccard@\d+ of fts5 and tantivy .* the check gives"):
        check_kernels(planted)


# 15. Rank correlation on absolute ranks, which leaves [-1, 1].


def test_15_rank_correlation_on_absolute_ranks(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absolute(pair: Pair, depth: int) -> Partial:
        rank = pair.within(depth)
        n = (rank != ABSENT).sum(axis=1)
        own = np.arange(rank.shape[1])
        squares = np.where(rank != ABSENT, (rank - own) ** 2, 0).sum(axis=1)
        defined = n > 1
        n = n[defined]
        return Partial(defined, 1 - 6 * squares[defined] / (n * (n * n - 1)))

    monkeypatch.setattr(agreement, "tau", absolute)
    measure(planted)
    with pytest.raises(EvidenceError, match=r"tau of fts5 and tantivy .* the check gives"):
        check_kernels(planted)
