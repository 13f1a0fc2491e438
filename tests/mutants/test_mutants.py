"""Faults of real systems are noticed."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from harness.agreement import Class
from harness.core.engine import Answer, Hit, Searcher
from harness.core.errors import EvidenceError, IndexNotReady, InvalidArm
from harness.core.files import write_json
from harness.core.gate import Outcome, Verdict
from harness.core.records import Query
from harness.core.run import Row, Status
from harness.corpus.prepared import Prepared
from harness.pipeline import race, report
from harness.pipeline.compare import read_agreement
from harness.pipeline.index import index
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import read_manifest
from harness.pipeline.replay import replay
from harness.pipeline.verify import verify
from harness.replay import drive
from harness.replay import race as replay_race
from harness.replay.drive import TimedOutcome, observe
from harness_engines import registry as arms
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make.forging import HONEST, Search, blocking, measure, replace_in, restamp
from tests.make.toy import CANDIDATE, CONTROL, GATES, HEAD, NAME, STEP, Toy

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("none_drawn")]
LOOSE = GATES.replace("max_share = 0.15", "max_share = 0.9")


@pytest.fixture
def searching(planted: Toy, monkeypatch: pytest.MonkeyPatch) -> Callable[[Search], None]:
    """Make the candidate search so, and measure it anew."""

    def measured(search: Search) -> None:
        monkeypatch.setattr(TantivySearcher, "search", search)
        measure(planted)

    return measured


def placed(
    monkeypatch: pytest.MonkeyPatch, arm: str, path: Path, old: str = "", new: str = ""
) -> None:
    """Write the control's file, changed, in the place of an arm's."""
    honest = arms.path_of
    path.write_text(honest(CONTROL).read_text().replace(old, new))
    monkeypatch.setattr(arms, "path_of", lambda name: path if name == arm else honest(name))


def test_without_a_fault(project: Toy) -> None:
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


# 2. An error taken for an empty result, and the reverse.
def test_2_an_error_taken_for_an_empty_result(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(searcher: Searcher, query: Query, k: int, limit_ns: int) -> TimedOutcome:
        seen = observe(searcher, query, k, limit_ns)
        if seen.row.status is Status.FAILED:
            return replace(seen, row=Row(query.query_id, Status.ANSWERED))
        return seen

    def failing(searcher: TantivySearcher, text: str, k: int) -> Answer:
        if sum(text.encode()) % 4 == 0:
            raise ValueError("the index is not open")
        return HONEST(searcher, text, k)

    planted.policy(HEAD + STEP + LOOSE.replace("margin = 0.15", "margin = 0.9"))
    monkeypatch.setattr(TantivySearcher, "search", failing)
    monkeypatch.setattr(drive, "observe", silent)
    with pytest.raises(InvalidArm, match=r"tantivy: \d+ of 41 answers .* by an unknown one"):
        measure(planted)


def test_2_an_empty_result_taken_for_an_error(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strict(searcher: Searcher, query: Query, k: int, limit_ns: int) -> TimedOutcome:
        seen = observe(searcher, query, k, limit_ns)
        row = seen.row if seen.row.hits else Row(query.query_id, Status.FAILED, error="no hits")
        return replace(seen, row=row)

    planted.policy(HEAD + STEP + GATES.replace("max_share = 0.15", "max_share = 0.1"))
    assert planted.decide().outcome is Outcome.PROMOTE
    monkeypatch.setattr(drive, "observe", strict)
    measure(planted)
    said = blocking(planted.decide())["Answers"]
    assert "tantivy: 1 of 41 went unanswered (1 failed)" in said.reason


# 6. Both arms resolve to the same engine (alias after a removal).
def test_6_an_alias_of_the_control(
    planted: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    placed(monkeypatch, CANDIDATE, tmp_path / f"{CANDIDATE}.toml")
    index(planted.layout, CANDIDATE, planted.cache)
    measure(planted)
    with pytest.raises(EvidenceError, match="fts5 and tantivy are the same engine: both are"):
        planted.decide()


# 8. Stale evidence accepted.
def test_8_scores_of_an_earlier_run(planted: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TantivySearcher, "search", lambda s, text, _: HONEST(s, text, 1))
    replay(planted.layout, CANDIDATE, planted.cache, planted.params.replay)
    with pytest.raises(
        EvidenceError, match=r"tantivy\.parquet: was changed since .*harness stage score"
    ):
        planted.decide()


# 12. A gate looser than the policy says.


def test_12_a_policy_loosened_after_the_decision(planted: Toy) -> None:
    planted.decide()
    planted.policy(HEAD + STEP + GATES.replace("margin = 0.15", "margin = 0.5"))
    with pytest.raises(EvidenceError, match=r"toy\.toml: was changed since .*harness gate"):
        pages(planted)


def pages(project: Toy) -> None:
    """Write the pages of what was decided."""
    subjects: dict[Layout, Any] = {project.layout: project.project.subject(NAME)}
    report.report(subjects, project.root / "reports", project.root / "receipt.json")


NEGATIVES = """
[[step.gate]]
name = "Silence"
rule = "negatives"
measure = "nDCG@10"
depth = 50
max_more = 0.2
min_queries = 10
"""
TWICE = """
[[step.gate]]
name = "No document twice"
rule = "duplicates"
max_share = 0.2
"""


# 7. The switch is taken before its evidence window is over.
def test_7_a_gate_that_does_not_wait_for_its_queries(planted: Toy) -> None:
    planted.policy(HEAD + STEP + GATES.replace("min_queries = 20", "min_queries = 60"))
    said = blocking(planted.decide())["Quality"]
    assert said.verdict is Verdict.INCONCLUSIVE
    assert "41 independent queries, fewer than the 60" in said.reason


# 9. Modes "compared" that all degraded to one engine.
def test_9_modes_that_all_fell_back_to_one_engine(
    planted: Toy, searching: Callable[[Search], None]
) -> None:
    lexical = arms.load(CONTROL, planted.cache).engine
    with lexical.open(planted.layout.index(CONTROL)) as serving:

        def fallen_back(_: Searcher, text: str, k: int) -> Answer:
            return replace(serving.search(text, k), note="no model: words alone")

        with pytest.raises(InvalidArm, match=r"41 of 41 .* another engine .* no model: words"):
            searching(fallen_back)


# 10. Negative queries that pass with any junk.
def test_10_junk_where_there_is_nothing_to_find(
    planted: Toy, searching: Callable[[Search], None]
) -> None:
    path = planted.layout.data / "qrels.trec"
    rows = [line.split() for line in path.read_text().splitlines()]
    without = {f"q{at:02}" for at in range(24)}  # 21 show 0.2: two of them are near-duplicates
    judged = [[q, it, doc, "0" if q in without else grade] for q, it, doc, grade in rows]
    path.write_text("".join(f"{' '.join(row)}\n" for row in judged))
    planted.policy(HEAD + STEP + GATES.replace("= 20", "= 15") + NEGATIVES)
    documents = Prepared.open(planted.layout.data).documents()
    everything = tuple(document.doc_id for document in documents)

    def at_least(count: int) -> Search:
        def search(searcher: TantivySearcher, text: str, k: int) -> Answer:
            found = HONEST(searcher, text, k)
            shown = {hit.doc_id for hit in found.hits}
            junk = tuple(Hit(doc_id, 0.0, -99.0) for doc_id in everything if doc_id not in shown)
            return replace(found, hits=(found.hits + junk)[: max(len(shown), count)])

        return search

    for count, right in ((0, Verdict.PASS), (50, Verdict.FAIL)):
        searching(at_least(count))
        said = {found.gate: found for found in planted.decide().findings}["Silence"]
        assert said.verdict is right, said.reason


# 11. A duplicated hit that earns gain twice.
def test_11_a_document_shown_twice(planted: Toy, searching: Callable[[Search], None]) -> None:
    def twice(searcher: TantivySearcher, text: str, k: int) -> Answer:
        found = HONEST(searcher, text, k)
        return replace(found, hits=tuple(hit for hit in found.hits for _ in range(2))[:k])

    planted.policy(HEAD + STEP + GATES.replace("floor = 0.6", "floor = 0.1") + TWICE)
    assert "No document twice" not in {f.gate for f in planted.decide().blocking}
    searching(twice)
    said = blocking(planted.decide())["No document twice"].reason
    assert "tantivy: 40 of 41 were shown a document twice" in said


# 16. Hits dropped by a filter after truncation (over-fetch too small).
def test_16_a_filter_behind_the_truncation(
    planted: Toy, searching: Callable[[Search], None]
) -> None:
    def dropping(searcher: TantivySearcher, text: str, k: int) -> Answer:
        found = HONEST(searcher, text, min(k, 5))
        return replace(found, hits=tuple(hit for hit in found.hits if int(hit.doc_id[1:]) % 2))

    searching(dropping)
    assert {"Overlap", "Quality"} <= set(blocking(planted.decide()))
    classes = read_agreement(planted.layout)[CONTROL, CANDIDATE].classes
    cut_short = {Class.TRUNCATION, Class.SHADOW_EMPTY, Class.OVERLAP}
    assert sum(name in cut_short for name in classes) > 30
    assert classes.count(Class.TRUNCATION) > 0


# 17. Scope or redaction that differs between the arms.
def test_17_an_index_of_a_smaller_scope(planted: Toy) -> None:
    engine = arms.load(CANDIDATE, planted.cache).engine
    documents = list(Prepared.open(planted.layout.data).documents())[:40]
    smaller = planted.root / "smaller"
    smaller.mkdir()
    made = engine.build(documents, smaller)
    write_json(planted.layout.manifest(CANDIDATE), asdict(made))
    with pytest.raises(IndexNotReady, match="built of other documents than those in"):
        measure(planted)
    assert json.loads(planted.layout.manifest(CANDIDATE).read_text())["documents"] == 40


# 18. A baseline crippled by its configuration.
def test_18_a_control_that_was_made_worse(
    planted: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = read_manifest(planted.layout, CONTROL).fingerprint
    planted.policy(HEAD + STEP + f"baseline = '{own[:12]}'\n" + GATES)
    assert planted.decide().outcome is Outcome.PROMOTE
    crippled = tmp_path / f"{CONTROL}.toml"
    placed(monkeypatch, CONTROL, crippled, "title_weight = 2.0", "title_weight = 0.5")
    index(planted.layout, CONTROL, planted.cache)
    replay(planted.layout, CONTROL, planted.cache, planted.params.replay)
    planted.judge_again()
    with pytest.raises(EvidenceError, match=r"fts5 \w+, which is not the baseline .* settings"):
        planted.decide()


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("corpus.jsonl", '"title": "', '"title": "x'),
        ("queries.jsonl", '"text": "', '"text": "x'),
        ("qrels.trec", "d00 0", "d00 1"),
    ],
)
def test_content_that_is_not_what_its_digest_says(
    planted: Toy, file: str, old: str, new: str
) -> None:
    """Receipts tell of bytes, and whoever changes a file writes them anew."""
    planted.decide()
    replace_in(planted.layout.data / file, old, new)
    restamp(planted.layout)
    with pytest.raises(EvidenceError, match=r"is not what .*manifest\.json says"):
        verify(planted.layout)


def test_an_index_of_the_control_under_another_name(planted: Toy) -> None:
    note = planted.layout.replayed(CANDIDATE)
    counted = json.loads(planted.layout.replayed(CONTROL).read_text())["index"]
    note.write_text(json.dumps({**json.loads(note.read_text()), "index": counted}))
    with pytest.raises(EvidenceError, match="have one index, byte for byte"):
        planted.decide()
