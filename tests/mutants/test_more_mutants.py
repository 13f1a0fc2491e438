"""Faults that real shadow comparators had, planted end to end: the others (method, section 7)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from harness import agreement
from harness.agreement import Class, Pair, Partial, classify, jaccard, tau
from harness.core.engine import Answer, Hit, Searcher
from harness.core.errors import BadFile, EvidenceError, IndexNotReady, InvalidArm
from harness.core.files import write_json
from harness.core.gate import Outcome, Verdict
from harness.core.records import Query
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run, write_run
from harness.gates.base import differences
from harness.pipeline import score
from harness.pipeline.compare import read_agreement
from harness.pipeline.index import index
from harness.pipeline.receipts import note_run, read_manifest
from harness.pipeline.replay import replay
from harness.replay import race as replay_race
from harness.replay.drive import TimedOutcome, observe
from harness_engines import registry as arms
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make.held import held_to
from tests.make.planted import HONEST, blocking, check_kernels, measure
from tests.make.toy import CANDIDATE, CONTROL, GATES, HEAD, STEP, Toy

pytestmark = pytest.mark.slow
Counting = Callable[[Pair, int], Partial]
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


def filled(honest: Counting) -> Counting:
    """Put 0 where there is no value."""

    def counting(pair: Pair, depth: int) -> Partial:
        found = honest(pair, depth)
        values = np.zeros(len(found.defined))
        values[found.defined] = found.values
        return Partial(np.ones(len(values), dtype=bool), values)

    return counting


# 4. Empty/empty counted as divergence.


def test_4_an_overlap_of_0_where_nobody_found_anything(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = vars(agreement)["_scores"]
    monkeypatch.setattr(agreement, "jaccard", filled(jaccard))
    monkeypatch.setattr(agreement, "_scores", lambda *given: honest(*given[:-1], {}))
    measure(planted)
    with pytest.raises(EvidenceError, match=r"q99 is 0\.0, but the check gives None"):
        check_kernels(planted)


def test_4_two_empty_answers_of_class_disjoint(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def harsh(*args: object, **kwargs: object) -> tuple[Class, ...]:
        found = classify(*args, **kwargs)  # type: ignore[arg-type]
        return tuple(Class.DISJOINT if name is Class.BOTH_EMPTY else name for name in found)

    monkeypatch.setattr(agreement, "classify", harsh)
    measure(planted)
    with pytest.raises(EvidenceError, match=r"q99 is of class disjoint, .* it is both_empty"):
        check_kernels(planted)


# 5. Undefined tau counted as 0.


def test_5_an_undefined_tau_counted_as_0(planted: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TantivySearcher, "search", lambda s, text, _: HONEST(s, text, 1))
    measure(planted)
    monkeypatch.setattr(agreement, "tau", filled(tau))
    measure(planted)
    with pytest.raises(EvidenceError, match=r"tau of .* is 0\.0, but the check gives None"):
        check_kernels(planted)


# 7. The switch is taken before its evidence window is over.


def test_7_a_gate_that_does_not_wait_for_its_queries(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.policy(HEAD + STEP + GATES.replace("min_queries = 20", "min_queries = 60"))
    said = blocking(planted.decide())["Quality"]
    assert said.verdict is Verdict.INCONCLUSIVE
    assert "41 independent queries, fewer than the 60" in said.reason
    monkeypatch.setattr(differences, "too_few", lambda *_: None)
    with pytest.raises(EvidenceError, match="passed on 41 queries, before the 60 that"):
        held_to(planted.project.policy(), [planted.decide()])


# 9. Modes "compared" that all degraded to one engine.


def test_9_modes_that_all_fell_back_to_one_engine(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    lexical = arms.load(CONTROL, planted.cache).engine
    with lexical.open(planted.layout.index(CONTROL)) as serving:

        def fallen_back(_: Searcher, text: str, k: int) -> Answer:
            return replace(serving.search(text, k), note="no model: words alone")

        monkeypatch.setattr(TantivySearcher, "search", fallen_back)
        with pytest.raises(InvalidArm, match=r"41 of 41 .* another engine .* no model: words"):
            measure(planted)


# 10. Negative queries that pass with any junk.


def test_10_junk_where_there_is_nothing_to_find(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = planted.layout.data / "qrels.trec"
    rows = [line.split() for line in path.read_text().splitlines()]
    without = {f"q{at:02}" for at in range(24)}  # 21 show 0.2: two of them are near-duplicates
    judged = [[q, it, doc, "0" if q in without else grade] for q, it, doc, grade in rows]
    path.write_text("".join(f"{' '.join(row)}\n" for row in judged))
    planted.policy(HEAD + STEP + GATES.replace("= 20", "= 15") + NEGATIVES)
    documents = Prepared.open(planted.layout.data).documents()
    everything = tuple(document.doc_id for document in documents)

    def at_most(count: int) -> Callable[[TantivySearcher, str, int], Answer]:
        def search(searcher: TantivySearcher, text: str, k: int) -> Answer:
            found = HONEST(searcher, text, k)
            shown = tuple(hit.doc_id for hit in found.hits)
            junk = tuple(doc_id for doc_id in everything if doc_id not in shown)
            hits = found.hits + tuple(Hit(doc_id, 0.0, -99.0) for doc_id in junk)
            return replace(found, hits=hits[: max(len(shown), count)])

        return search

    for count, right in ((0, Verdict.PASS), (50, Verdict.FAIL)):
        monkeypatch.setattr(TantivySearcher, "search", at_most(count))
        measure(planted)
        said = {found.gate: found for found in planted.decide().findings}["Silence"]
        assert said.verdict is right, said.reason


# 11. A duplicated hit that earns gain twice.


def test_11_a_document_shown_twice(planted: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(searcher: TantivySearcher, text: str, k: int) -> Answer:
        found = HONEST(searcher, text, k)
        return replace(found, hits=tuple(hit for hit in found.hits for _ in range(2))[:k])

    planted.policy(HEAD + STEP + GATES.replace("floor = 0.6", "floor = 0.1") + TWICE)
    assert "No document twice" not in {f.gate for f in planted.decide().blocking}
    monkeypatch.setattr(TantivySearcher, "search", twice)
    measure(planted)
    assert "tantivy: 40 of 41 were shown a document twice" in (
        blocking(planted.decide())["No document twice"].reason
    )


def test_11_a_run_that_kept_its_repeated_hits(planted: Toy) -> None:
    path = planted.layout.run(CANDIDATE)
    run = read_run(path)
    doubled = replace(
        run,
        offsets=run.offsets * 2,
        docs=np.repeat(run.docs, 2),
        score=np.repeat(run.score, 2),
        raw_score=np.repeat(run.raw_score, 2),
    )
    write_run(doubled, path)
    note_run(planted.layout, CANDIDATE)
    with pytest.raises(BadFile, match=r"tantivy\.parquet: .*q\d+ is shown .* twice"):
        planted.judge_again()


# 13. A latency sum that wraps, or a NaN that spreads.


def test_13_a_time_that_wraps(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrapping(searcher: Searcher, query: Query, k: int, limit_ns: int) -> TimedOutcome:
        seen = observe(searcher, query, k, limit_ns)
        return replace(seen, elapsed_ns=seen.elapsed_ns - 2**32)

    monkeypatch.setattr(replay_race, "observe", wrapping)
    project.race()
    with pytest.raises(EvidenceError, match="not above 0"):
        project.decide()


def test_13_a_nan_among_the_scores(planted: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = vars(score)["score_run"]

    def spoilt(*args: object) -> object:
        found = honest(*args)
        values = found["nDCG@10"].values.copy()
        values[3] = np.nan
        return {**found, "nDCG@10": replace(found["nDCG@10"], values=values)}

    monkeypatch.setattr(score, "score_run", spoilt)
    with pytest.raises(EvidenceError, match=r"NaN|nan"):
        planted.judge_again()


# 16. Hits dropped by a filter after truncation (over-fetch too small).


def test_16_a_filter_behind_the_truncation(planted: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    def dropping(searcher: TantivySearcher, text: str, k: int) -> Answer:
        found = HONEST(searcher, text, min(k, 5))
        return replace(found, hits=tuple(hit for hit in found.hits if int(hit.doc_id[1:]) % 2))

    monkeypatch.setattr(TantivySearcher, "search", dropping)
    measure(planted)
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


def test_17_answers_that_hide_documents_from_one_arm(
    planted: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def redacted(searcher: TantivySearcher, text: str, k: int) -> Answer:
        found = HONEST(searcher, text, k)
        return replace(found, hits=tuple(hit for hit in found.hits if hit.doc_id < "d20"))

    monkeypatch.setattr(TantivySearcher, "search", redacted)
    measure(planted)
    assert {"Overlap", "Quality"} <= set(blocking(planted.decide()))


# 18. A baseline crippled by its configuration.


def test_18_a_control_that_was_made_worse(
    planted: Toy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    honest = arms.path_of
    own = read_manifest(planted.layout, CONTROL).fingerprint
    planted.policy(HEAD + STEP + f"baseline = '{own[:12]}'\n" + GATES)
    assert planted.decide().outcome is Outcome.PROMOTE
    crippled = tmp_path / f"{CONTROL}.toml"
    text = honest(CONTROL).read_text()
    crippled.write_text(text.replace("title_weight = 2.0", "title_weight = 0.5"))
    monkeypatch.setattr(arms, "path_of", lambda name: crippled if name == CONTROL else honest(name))
    index(planted.layout, CONTROL, planted.cache)
    replay(planted.layout, CONTROL, planted.cache, planted.params.replay)
    planted.judge_again()
    with pytest.raises(EvidenceError, match=r"fts5 \w+, which is not the baseline .* settings"):
        planted.decide()


def test_18_a_step_that_is_not_judged_against_what_serves(planted: Toy) -> None:
    own = read_manifest(planted.layout, CONTROL).fingerprint
    taken = STEP.replace("taken = false", f"taken = true\nbaseline = '{own}'")
    later = STEP.replace('name = "tantivy"', 'name = "hybrid"')
    later = later.replace('candidate = "tantivy"', 'candidate = "hash-hybrid"')
    planted.policy(HEAD + taken + GATES + later + GATES)
    planted.judge_again()
    with pytest.raises(EvidenceError, match="tantivy serves; make tantivy its control"):
        planted.decide()
