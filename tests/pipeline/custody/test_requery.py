"""A run that no engine gave is found by asking the engine again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from harness.core.engine import Answer
from harness.core.errors import EvidenceError, IndexNotReady
from harness.core.run import Run, Status
from harness.corpus.runs import read_run, write_run
from harness.pipeline.receipts import note_replayed, note_run
from harness.pipeline.verify import verify
from harness.trust.requery import Requeried, Sample, requery
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make.planted import HONEST
from tests.make.toy import CANDIDATE, CONTROL, QUERIES, Toy

EVERY = Sample(QUERIES + 1, 1)
BOTH = {CONTROL: CONTROL, CANDIDATE: CANDIDATE}


def forged(project: Toy, **values: object) -> None:
    """Write another run of the candidate, and everything above it by the book."""
    layout = project.layout
    run = replace(read_run(layout.run(CANDIDATE)), **values)  # type: ignore[arg-type]
    write_run(run, layout.run(CANDIDATE))
    write_run(run, layout.again(CANDIDATE))
    note_run(layout, CANDIDATE)
    note_replayed(layout, CANDIDATE, datetime.now(UTC))


def swapped(run: Run) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Swap the first two hits of every query that has two."""
    docs = run.docs.copy()
    for at in run.offsets[:-1][run.lengths > 1]:
        docs[at], docs[at + 1] = docs[at + 1], docs[at]
    return docs


def test_an_honest_run_is_what_its_engine_shows(project: Toy) -> None:
    said = requery(project.layout, BOTH, project.cache, EVERY)
    assert said == (
        Requeried(CONTROL, 41, 0, imported=False),
        Requeried(CANDIDATE, 41, 0, imported=False),
    )


@pytest.mark.slow
def test_a_run_written_by_hand_is_named_though_all_follows_from_it(project: Toy) -> None:
    run = read_run(project.layout.run(CANDIDATE))
    forged(project, docs=swapped(run))
    project.untimed()
    project.judge_again()
    project.decide()
    verify(project.layout)
    with pytest.raises(
        EvidenceError, match=r"query q\d+ of tantivy: hit 1 is d\d+ in the run, and"
    ):
        requery(project.layout, BOTH, project.cache, EVERY)


def test_scores_and_lengths_are_compared_too(project: Toy) -> None:
    run = read_run(project.layout.run(CANDIDATE))
    forged(project, raw_score=run.raw_score * 1.01)
    with pytest.raises(EvidenceError, match=r"hit 1, d\d+, has the score .* the engine gives"):
        requery(project.layout, BOTH, project.cache, EVERY)
    forged(project, raw_score=run.raw_score)
    requery(project.layout, BOTH, project.cache, EVERY)


def test_what_the_engine_shows_today_is_compared(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fewer(searcher: TantivySearcher, text: str, k: int) -> Answer:
        found = HONEST(searcher, text, k)
        return replace(found, hits=found.hits[:1])

    monkeypatch.setattr(TantivySearcher, "search", fewer)
    with pytest.raises(EvidenceError, match=r"the run has \d+ hits, and the engine shows 1"):
        requery(project.layout, BOTH, project.cache, EVERY)


def test_a_query_without_an_answer_is_counted_and_not_compared(project: Toy) -> None:
    run = read_run(project.layout.run(CANDIDATE))
    status = run.status.copy()
    status[:3] = Status.TIMED_OUT
    forged(project, status=status)
    (said,) = requery(project.layout, {CANDIDATE: CANDIDATE}, project.cache, EVERY)
    assert (said.same, said.unanswered) == (38, 3)


def test_an_index_of_other_settings_is_not_asked(project: Toy) -> None:
    (project.layout.index(CANDIDATE) / "arm.sha256").write_text("0" * 64)
    with pytest.raises(IndexNotReady, match="was changed since the arm's index was built"):
        requery(project.layout, BOTH, project.cache, EVERY)
