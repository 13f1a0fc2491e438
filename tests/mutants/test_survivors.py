"""Faults that run and verification once let through; each is refused by its name."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from time import sleep
from typing import Any

import pytest

from harness import agreement
from harness.agreement import Class, classify
from harness.core.engine import Answer, Searcher
from harness.core.errors import EvidenceError
from harness.core.gate import Verdict
from harness.core.records import Query
from harness.pipeline.index import Opener, note_files
from harness.pipeline.race import race
from harness.pipeline.receipts import note_replayed
from harness.pipeline.verify import verify
from harness.replay import drive
from harness.replay.drive import TimedOutcome, observe
from harness.replay.machine import Advance, Work
from harness.trust.reproduce import QuerySample, requery
from harness_engines import registry as arms
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make.forging import HONEST, check_kernels, measure, replace_in, restamp
from tests.make.toy import CANDIDATE, CONTROL, Toy

pytestmark = pytest.mark.slow

SLOW = 8
"""One query in so many takes longer than its limit."""


def slow(searcher: TantivySearcher, text: str, k: int) -> Answer:
    if sum(text.encode()) % SLOW == 0:
        sleep(0.2)
    return HONEST(searcher, text, k)


@pytest.fixture
def bounded(planted: Toy, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """Give the candidate too little time for some of its queries."""
    params = planted.root / "params.yaml"
    params.write_text(params.read_text().replace("time_limit_s: 10", "time_limit_s: 0.1"))
    monkeypatch.setattr(TantivySearcher, "search", slow)
    return planted


def test_timeouts_that_count_as_compared(bounded: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def generous(*given: Any, **named: Any) -> tuple[Class, ...]:  # noqa: ANN401
        found = classify(*given, **named)
        return tuple(Class.EXACT if name is Class.TIMEOUT else name for name in found)

    monkeypatch.setattr(agreement, "classify", generous)
    measure(bounded)
    with pytest.raises(EvidenceError, match=r"is of class exact, but by hand it is timeout"):
        check_kernels(bounded)


def patient(searcher: Searcher, query: Query, k: int, limit_ns: int) -> TimedOutcome:
    return observe(searcher, query, k, limit_ns * 10**6)


def test_a_time_limit_that_never_fires(bounded: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drive, "observe", patient)
    with pytest.raises(
        EvidenceError, match=r"tantivy: query q\d+ took 0\.\d+ s, .* limit is 0\.1 s"
    ):
        measure(bounded)


def documents(project: Toy) -> None:
    replace_in(project.layout.data / "corpus.jsonl", '"title": "', '"title": "x')


def queries(project: Toy) -> None:
    replace_in(project.layout.data / "queries.jsonl", '"text": "', '"text": "x')


def judgements(project: Toy) -> None:
    replace_in(project.layout.data / "qrels.trec", "d00 0", "d00 1")


@pytest.mark.parametrize("change", [documents, queries, judgements])
def test_content_that_is_not_what_its_digest_says(
    planted: Toy, change: Callable[[Toy], None]
) -> None:
    """Receipts tell of bytes, and whoever changes a file writes them anew."""
    planted.decide()
    change(planted)
    restamp(planted.layout)
    with pytest.raises(EvidenceError, match=r"is not what .*manifest\.json says"):
        verify(planted.layout)


def test_an_index_of_the_control_under_another_name(planted: Toy) -> None:
    note = planted.layout.replayed(CANDIDATE)
    counted = json.loads(planted.layout.replayed(CONTROL).read_text())["index"]
    note.write_text(json.dumps({**json.loads(note.read_text()), "index": counted}))
    with pytest.raises(EvidenceError, match="have one index, byte for byte"):
        planted.decide()


def test_an_identity_that_no_one_checked_is_said(planted: Toy) -> None:
    planted.decide()
    (about,) = json.loads(planted.layout.decision.read_text())["datasets"]
    assert about["evidence"]["unprobed"] == []
    note_replayed(planted.layout, CANDIDATE, datetime.now(UTC))
    decision = planted.decide()
    (about,) = json.loads(planted.layout.decision.read_text())["datasets"]
    assert about["evidence"]["unprobed"] == [CANDIDATE]
    (identity,) = [found for found in decision.findings if found.rule == "identity"]
    assert identity.verdict is Verdict.INCONCLUSIVE
    assert "the index of tantivy was not verified; its identity is self-reported" in identity.reason


def test_an_index_that_was_changed_since_is_not_asked_again(planted: Toy) -> None:
    (planted.layout.index(CANDIDATE) / "more").write_text("x")
    note_files(planted.layout.index(CANDIDATE))
    with pytest.raises(EvidenceError, match="its files are not those that the run of tantivy"):
        requery(planted.layout, {CANDIDATE: CANDIDATE}, planted.cache, QuerySample(3, 1))


def one_process(work: Work, advance: Advance) -> None:
    """Be every fresh process at once: what is open stays open."""
    work(advance)


def test_an_aa_control_that_is_the_same_open_index(project: Toy) -> None:
    params = project.params
    race(project.layout, project.project.raced(), project.cache, params.race, 10, run=one_process)
    says = r"\d processes were raced, and they are 1: an index that is open already gives no A/A"
    with pytest.raises(EvidenceError, match=says):
        project.decide()


def test_two_arms_that_are_one_open_index(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    with arms.load(CONTROL, project.cache).engine.open(project.layout.index(CONTROL)) as served:
        monkeypatch.setattr(Opener, "__call__", lambda _: nullcontext(served))
        with pytest.raises(EvidenceError, match="are one open index"):
            project.race()
