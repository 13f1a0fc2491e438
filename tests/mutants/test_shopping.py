"""Verdicts that are shopped for: pins, looks and other questions."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from harness.core.engine import Answer
from harness.core.errors import BadFile
from harness.core.gate import Outcome, Verdict
from harness.pipeline.evidence import pin
from harness.pipeline.gate import stored
from harness.pipeline.prepare import prepare
from harness.pipeline.verify import verify
from harness.report.page.tables import kept_lines
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make.forging import HONEST, blocking, measure
from tests.make.toy import GATES, HEAD, NAME, STEP, Toy
from tests.mutants.listed import mutants
from tests.source import ROOT

LOST = 5
"""One query in so many shows nothing but junk."""
WIDE = GATES.replace("margin = 0.1", "margin = 0.2")
"""Wide enough for the forty queries of the toy."""
LOOSE = WIDE.replace("floor = 0.6", "floor = 0.3").replace("floor = 0.5", "floor = 0.3")
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def junk(searcher: TantivySearcher, text: str, k: int) -> Answer:
    found = HONEST(searcher, text, k)
    return replace(found, hits=found.hits[5:]) if sum(text.encode()) % LOST == 0 else found


@pytest.fixture
def losing(planted: Toy, monkeypatch: pytest.MonkeyPatch) -> Toy:
    """Hold a candidate that shows junk for a fifth of the queries."""
    planted.policy(HEAD + STEP + LOOSE)
    monkeypatch.setattr(TantivySearcher, "search", junk)
    measure(planted)
    assert set(blocking(planted.decide())) == {"Quality"}
    return planted


def trim(project: Toy) -> int:
    """Delete the judgements of the queries that lost, as the project's own data; count them."""
    data = project.layout.data / "queries.jsonl"
    rows = map(json.loads, data.read_text().splitlines())
    lost = {row["query_id"] for row in rows if sum(row["text"].encode()) % LOST == 0}
    (path,) = (project.root / "qrels" / NAME).glob("*.qrels")
    kept = [line for line in path.read_text().splitlines() if line.split()[0] not in lost]
    path.write_text("".join(f"{line}\n" for line in kept))
    folders = project.root / "datasets" / NAME, project.root / "qrels" / NAME
    prepare(*folders, project.layout.data, update=True)
    project.judge_again()
    return len(lost)


def kept(project: Toy) -> tuple[str, ...]:
    """Return what the first screen says of how the evidence was kept."""
    subject = project.project.subject(NAME)
    return tuple(kept_lines(stored(project.layout, subject).kept))


@pytest.mark.slow
def test_deleted_judgements_are_named_on_the_first_screen(losing: Toy) -> None:
    count = trim(losing)
    assert losing.decide().outcome is Outcome.PROMOTE
    said = kept(losing)
    assert said[0].startswith(f"41 queries: {count} (")
    assert said[1].startswith("Query set not pinned")
    assert f"{count} queries without judgements that had some (q" in said[2]
    assert "judgements, 2,401 before" in said[2]
    assert said[3].startswith("tantivy: second look (2 at results, 0 at times; the larger counts).")
    assert said[3].endswith("Changed since the last look: other judgements.")
    losing.decide(later_s=1)
    assert kept(losing) == said


@pytest.mark.slow
@pytest.mark.whole("test_deleted_judgements_are_named_on_the_first_screen")
def test_deleted_judgements_hold_the_step_where_they_were_pinned(losing: Toy) -> None:
    pin(losing.layout, losing.project.policy_file, at=NOW, by="me")
    assert set(blocking(losing.decide(later_s=1))) == {"Quality"}
    count = trim(losing)
    found = blocking(losing.decide(later_s=2))
    (drift,) = found.values()
    assert (drift.rule, drift.verdict) == ("pinned", Verdict.INCONCLUSIVE)
    assert f"{count} queries without judgements that had some (" in drift.reason
    assert "harness policy pin policy/toy.toml --dataset toy" in drift.remedy
    assert "NOT AS PINNED on 2026-03-01" in kept(losing)[1]
    verify(losing.layout)
    pin(losing.layout, losing.project.policy_file, at=NOW, by="me")
    assert losing.decide(later_s=3).outcome is Outcome.PROMOTE
    assert kept(losing)[1].startswith("As pinned on 2026-03-01 (second pin)")


@pytest.mark.slow
def test_attempts_beyond_the_error_budget_hold_the_step(losing: Toy) -> None:
    """The policy plans one attempt; judging the same evidence again is none."""
    trim(losing)
    losing.policy(HEAD.replace("ts = 10", "ts = 1").replace("= 0.5", "= 0.95") + STEP + LOOSE)
    for later in (1, 2):
        (found,) = losing.decide(later_s=later).blocking
        assert (found.rule, found.timed) == ("error_budget", True)
        assert "this is attempt 2 and 1 were planned" in found.reason
    verify(losing.layout)


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (lambda text: text[:1] + text[2:], 2),
        (lambda text: [text[0], text[1].replace('"race":5', '"race":6'), *text[2:]], 3),
    ],
    ids=["cut", "edited"],
)
def test_a_line_that_was_changed_or_taken_out_is_missed(
    losing: Toy, spoil: Callable[[list[str]], list[str]], line: int
) -> None:
    losing.decide(later_s=6)
    path = losing.layout.log
    before = path.read_text().splitlines()
    assert len(before) == 4
    path.write_text("".join(f"{line}\n" for line in spoil(before)))
    with pytest.raises(BadFile, match=rf"log\.jsonl:{line}: does not follow the line before it"):
        verify(losing.layout)


@pytest.mark.slow
def test_the_same_pin_stands_for_the_same_evidence(planted: Toy) -> None:
    planted.policy(HEAD + STEP + WIDE)
    pin(planted.layout, planted.project.policy_file, at=NOW, by="me")
    assert planted.decide().outcome is Outcome.PROMOTE
    verify(planted.layout)


PAGE = (ROOT / "docs" / "trust.md").read_text("utf-8")
HEAD_TRUST = ("promise", "command")


def promised() -> dict[str, tuple[str, ...]]:
    """Return the tests that the command of each promise names; none where it is a benchmark."""
    found, told = {}, False
    for line in PAGE.splitlines():
        cells = tuple(cell.strip() for cell in line.strip("|").split(" | "))
        told = line.startswith("|") and (told or cells == HEAD_TRUST)
        if told and cells != HEAD_TRUST and not set(line) <= set("|- "):
            found[cells[0]] = tuple(re.findall(r"tests/[\w/.]+", cells[-1]))
    return found


PROMISES = promised()
PLANTED = [one for one in mutants() if one.promise]


def test_there_are_promises_and_a_benchmark_is_told_from_tests() -> None:
    assert len(PROMISES) > 30
    assert [named for named in PROMISES.values() if not named]
    assert all((ROOT / test).exists() for named in PROMISES.values() for test in named)


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_has_a_fault_that_a_test_of_its_command_kills(promise: str) -> None:
    tests = [test for one in PLANTED if one.promise == promise for test in one.tests]
    assert tests
    named = PROMISES[promise]
    assert not named or [test for test in tests if test.startswith(named)]


def test_a_fault_breaks_a_promise_of_the_page_and_the_page_counts_them() -> None:
    assert {one.promise for one in PLANTED} <= PROMISES.keys()
    assert f"Each of the {len(PROMISES)} promises has a planted fault" in PAGE
    assert f"{len(PLANTED)} in all" in PAGE
