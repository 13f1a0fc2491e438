"""The stages replay, score and compare."""

import json
import os
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

import ir_measures
import numpy as np
import pytest

from harness.core.engine import Answer
from harness.core.errors import EvidenceError, HarnessError, IndexNotReady, InvalidArm, UnknownName
from harness.core.records import Query
from harness.core.run import Row, Run, Status
from harness.corpus import trec
from harness.corpus.prepared import QRELS, Prepared
from harness.corpus.runs import ARM_SCORES, read_run, write_run
from harness.pipeline import receipts
from harness.pipeline import replay as replay_ahead
from harness.pipeline.compare import check_compared, read_agreement
from harness.pipeline.decompose import ask
from harness.pipeline.evidence import slice_differences
from harness.pipeline.layout import Layout
from harness.pipeline.oneshot import measuring
from harness.pipeline.params import read
from harness.pipeline.receipts import note_run, read_manifest
from harness.pipeline.replay import check_served, replay
from harness.pipeline.score import check_scores, estimates
from harness.replay import drive
from harness.replay.machine import Advance
from harness.stats.inference import Inference
from harness_engines.stacks.text.fts5 import Fts5Searcher
from tests.make import gate_inputs
from tests.make.arms import Table, hits
from tests.make.runs import scores_of
from tests.make.toy import ARMS, CANDIDATE, CONTROL, NOTHING, Toy
from tests.source import ROOT

LONG_AGO = 1_750_000_000


def again(project: Toy, arm: str = "fts5") -> None:
    replay(project.layout, arm, project.cache, project.params.replay)


@pytest.mark.parametrize("arm", ARMS)
def test_a_run_has_a_row_for_each_query_in_their_order(measured: Toy, arm: str) -> None:
    asked = tuple(query.query_id for query in Prepared.open(measured.layout.data).queries())
    for path in (measured.layout.run(arm), measured.layout.again(arm)):
        run = read_run(path)
        assert run.query_ids == asked
        assert run.count(Status.ANSWERED) == len(asked)
        assert set(run.served_by) == {read_manifest(measured.layout, arm).fingerprint}
        assert run.lengths.max() <= measured.params.replay.k


def test_an_index_built_anew_between_both_replays_is_refused(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, path = read_run(project.layout.run("fts5")), project.layout.manifest("fts5")
    made, before = path.read_text(), project.layout.run("fts5").read_bytes()

    def built_anew(*_: object) -> Run:
        path.write_text(made.replace("sqlite-fts5", "sqlite-fts4"))
        return run

    monkeypatch.setattr(replay_ahead, "_ask", built_anew)
    with pytest.raises(IndexNotReady, match="is not the index that"):
        again(project)
    assert project.layout.run("fts5").read_bytes() == before


def test_an_arm_that_answers_nothing_is_invalid(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> Answer:
        raise ValueError("broken pipe")

    monkeypatch.setattr(Fts5Searcher, "search", fails)
    with pytest.raises(InvalidArm, match=r"not one of 41 queries was answered; .* broken pipe"):
        again(project)


def test_a_killed_replay_goes_on_where_it_was(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = project.layout.run("fts5").read_bytes()
    asked: list[str] = []
    honest = Fts5Searcher.search

    def killed(searcher: Fts5Searcher, text: str, k: int) -> Answer:
        asked.append(text)
        if len(asked) == 25:
            raise KeyboardInterrupt
        return honest(searcher, text, k)

    monkeypatch.setattr(drive, "PART", 10)
    monkeypatch.setattr(Fts5Searcher, "search", killed)
    with pytest.raises(KeyboardInterrupt):
        again(project)
    assert project.layout.run("fts5").read_bytes() == before
    seed = str(project.params.replay.seed)
    left = list((project.layout.parts("fts5") / seed).iterdir())
    assert len(left) == 2
    os.utime(left[0], (LONG_AGO, LONG_AGO))
    again(project)
    since = datetime.fromisoformat(receipts.replayed(project.layout, "fts5").at or "")
    assert since.timestamp() == LONG_AGO, "a run is as old as its oldest answer"
    assert len(asked) == 25 + (41 - 20) + 41
    assert project.layout.run("fts5").read_bytes() == before


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count what this process asks; any replay is worth a second one, on any machine."""
    honest = Fts5Searcher.search
    texts: list[str] = []

    def noting(searcher: Fts5Searcher, text: str, k: int) -> Answer:
        texts.append(text)
        return honest(searcher, text, k)

    monkeypatch.setattr(Fts5Searcher, "search", noting)
    monkeypatch.setattr(replay_ahead, "WORTH", 1)
    monkeypatch.setattr(replay_ahead, "usable_cores", lambda: 2)
    return texts


class Dies:
    """The work of a process that ends before it did anything."""

    def __call__(self, _: Advance) -> None:
        os._exit(3)


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True])
def test_each_of_two_processes_asks_once_and_here_is_done_what_the_other_did_not_do(
    project: Toy, asked: list[str], monkeypatch: pytest.MonkeyPatch, *, dies: bool
) -> None:
    files = project.layout.run("fts5"), project.layout.again("fts5")
    before = [path.read_bytes() for path in files]
    if dies:
        monkeypatch.setattr(replay_ahead, "partial", lambda *_: Dies())
    again(project)
    assert [path.read_bytes() for path in files] == before
    assert len(asked) == (1 + dies) * len(set(asked))


def test_a_sample_is_asked_twice_and_compared_with_itself(
    project: Toy, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts, "SAMPLE", 3)
    monkeypatch.setattr(replay_ahead, "WORTH", 1_000)
    params = project.params.replay.asking_twice("sample")
    first = replay_ahead.replay(project.layout, "fts5", project.cache, params)
    assert len(asked) == len(first) + 3
    shown, again = receipts.read_twice(project.layout, "fts5")
    drawn = read_run(project.layout.again("fts5")).query_ids
    assert len(drawn) == 3
    assert shown.query_ids == again.query_ids == drawn
    assert shown.shown_sha256 == again.shown_sha256
    assert [shown.ranking(q) for q in drawn] == [first.ranking(q) for q in drawn]
    monkeypatch.setattr(receipts, "SAMPLE", 4)
    with pytest.raises(EvidenceError, match=r"has 3 queries of \d+, and a sample has 4\. Run: har"):
        receipts.read_twice(project.layout, "fts5")


def test_one_answer_of_another_engine_is_enough_and_the_arm_says_why() -> None:
    table = Table(answers={"two": lambda: Answer(hits("d"), "somebody else", "the disk is full")})
    queries = [Query("q1", "one"), Query("q2", "two")]
    answered = Row("q1", Status.ANSWERED, hits("d"), table.manifest.fingerprint)
    failed = Row("q2", Status.FAILED, error="x")
    check_served(Run.of("arm", [answered, failed]), table, queries)
    strange = Row("q2", Status.ANSWERED, hits("d"), "somebody else")
    with pytest.raises(InvalidArm, match=r"1 of 2 .* of q2, by somebody els: the disk is full"):
        check_served(Run.of("arm", [answered, strange]), table, queries)


def test_an_answer_of_a_fallback_is_told_apart(
    measured: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, asked = Fts5Searcher.search, (measured.layout, ("fts5",), Query("", "water"), 3)
    (own,) = ask(*asked, measured.cache)
    fallback = partial(replace, served_by="f" * 64)
    monkeypatch.setattr(Fts5Searcher, "search", lambda *given: fallback(honest(*given)))
    (other,) = ask(*asked, measured.cache)
    assert (own.by_itself, other.by_itself) == (True, False)


@pytest.mark.parametrize("arm", ARMS)
def test_values_are_those_of_ir_measures_on_the_trec_files(
    measured: Toy, tmp_path: Path, arm: str
) -> None:
    layout = measured.layout
    trec.write_run(tmp_path / "run", read_run(layout.run(arm)))
    read_qrels, read_run_file = ir_measures.read_trec_qrels, ir_measures.read_trec_run
    qrels = list(read_qrels(str(layout.data / QRELS)))  # type: ignore[no-untyped-call]
    run = list(read_run_file(str(tmp_path / "run")))  # type: ignore[no-untyped-call]
    ours = ARM_SCORES.read(layout.per_query)[arm,]
    for name in measured.params.score.measures:
        measure = ir_measures.parse_measure(name)
        theirs = {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, run)}
        assert ours[name].by_query == pytest.approx(theirs, rel=0, abs=1e-12)


def test_the_means_are_means_with_their_interval(measured: Toy) -> None:
    written = json.loads(measured.layout.scores.read_text())
    per_query = ARM_SCORES.read(measured.layout.per_query)
    assert set(written) == set(ARMS)
    for arm, by_measure in written.items():
        assert set(by_measure) == set(measured.params.score.measures)
        for name, row in by_measure.items():
            assert set(row) == {"mean", "low", "high", "queries"}
            assert row["mean"] == pytest.approx(per_query[arm,][name].mean, abs=1e-12)
            assert row["low"] <= row["mean"] <= row["high"]
            assert row["queries"] == 41


def test_slices_have_means_of_their_own(measured: Toy) -> None:
    by_slice = measured.layout.read(Layout.slices)
    assert by_slice["identifier"]["fts5"]["RR@10"].n == 11
    assert by_slice["natural-language"]["fts5"]["RR@10"].n == 30
    whole = measured.layout.read(Layout.scores)["fts5"]["RR@10"]
    parts = [by_slice[name]["fts5"]["RR@10"] for name in by_slice]
    assert sum(part.value * part.n for part in parts) == pytest.approx(whole.value * whole.n)


def test_scores_know_the_runs_and_judgements_that_they_are_of(project: Toy) -> None:
    check_scores(project.layout, ARMS)
    path = project.layout.data / QRELS
    path.write_text(path.read_text().replace("q00 0 d00 0", "q00 0 d00 2"))
    says = r"qrels\.trec: was changed since .*harness stage score"
    with pytest.raises(EvidenceError, match=says):
        check_scores(project.layout, ARMS)


def test_queries_of_one_cluster_have_a_mean_and_a_wide_interval() -> None:
    values = {f"q{n}": 0.5 for n in range(12)}
    one = dict.fromkeys(values, "pattern")
    scores = {"a": {"nDCG@10": scores_of(values), "NumRet": scores_of(values, measure="NumRet")}}
    found = estimates(scores, one, Inference(confidence=0.95, resamples=1000, seed=1))["a"]
    assert set(found) == {"nDCG@10"}
    assert found["nDCG@10"].value == 0.5
    assert found["nDCG@10"].high - found["nDCG@10"].low > 0.9


def test_what_a_policy_reads_is_measured_too() -> None:
    params = read(ROOT / "params.yaml")
    asked = measuring(params, ["nDCG@8", "nDCG@10"])
    assert asked.score.measures == (*params.score.measures, "nDCG@8")
    assert asked.replay == params.replay
    with pytest.raises(HarnessError, match=r"score.measures R@9999 looks deeper than the"):
        measuring(params, ["R@9999"])
    with pytest.raises(UnknownName, match="no measure named 'nDGC@8'"):
        measuring(params, ["nDGC@8"])


PAIR = (CONTROL, CANDIDATE)


def test_each_query_has_a_class_and_each_control_a_noise(measured: Toy) -> None:
    found = read_agreement(measured.layout)
    assert set(found) == {PAIR, (CONTROL, CONTROL)}
    classes = dict(zip(found[PAIR].query_ids, found[PAIR].classes, strict=True))
    assert len(classes) == 41
    assert classes[NOTHING] == "both_empty"
    assert set(found[CONTROL, CONTROL].classes) == {"exact", "both_empty"}


def test_an_unsteady_control_shows_in_the_noise_alone(project: Toy) -> None:
    before = read_agreement(project.layout)[PAIR].scores["Jaccard@10"].mean
    other = read_run(project.layout.run("hash-hybrid"))
    write_run(replace(other, arm=CONTROL), project.layout.again(CONTROL))
    note_run(project.layout, CONTROL)
    project.judge_again()
    found = read_agreement(project.layout)
    assert found[PAIR].scores["Jaccard@10"].mean == before
    assert "exact" not in set(found[CONTROL, CONTROL].classes)


def test_jaccard_is_over_the_union(measured: Toy) -> None:
    runs = [read_run(measured.layout.run(arm)) for arm in PAIR]
    found = read_agreement(measured.layout)[PAIR].scores["Jaccard@10"]
    for query_id, value in found.by_query.items():
        left, right = (set(run.ranking(query_id, 10)) for run in runs)
        assert value == pytest.approx(len(left & right) / len(left | right))
    assert found.undefined == {"both_empty": (NOTHING,)}


def test_differences_are_candidate_less_control(measured: Toy) -> None:
    scores = ARM_SCORES.read(measured.layout.per_query)
    apart = measured.layout.read(Layout.differences)[f"{CONTROL}~{CANDIDATE}"]
    for name in measured.params.score.measures:
        values = [scores[arm,][name].values for arm in PAIR]
        assert apart[name].value == pytest.approx(float(np.mean(values[1] - values[0])))


def test_a_comparison_is_of_the_runs_it_was_made_from(project: Toy) -> None:
    check_compared(project.layout, [PAIR])
    path = project.layout.again(CONTROL)
    path.write_bytes(project.layout.again(CANDIDATE).read_bytes())
    with pytest.raises(EvidenceError, match=r"again\.parquet: was changed .*harness stage compare"):
        check_compared(project.layout, [PAIR])


def test_each_slice_has_the_mean_difference_of_its_queries_each_intent_once() -> None:
    control = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    names = {"up": "012", "down": "34", "alone": "5", "strange": "7"}
    slices = {name: frozenset(f"q000{at}" for at in of) for name, of in names.items()}
    candidate = control + np.array([0.1, 0.3, 0.0, -0.2, -0.2, 0.0])
    evidence = gate_inputs.scored(control, candidate, slices=slices)
    one_intent = replace(evidence, clusters={"q0003": "same", "q0004": "same"})
    steps = {"first": evidence, "again": evidence, "one intent": one_intent}
    found = slice_differences(steps, "nDCG@10", gate_inputs.RULES)
    assert found["first"] == found["again"]
    assert set(found["first"]) == {"up", "down"}
    assert set(found["one intent"]) == {"up"}
    up, down = found["first"]["up"], found["first"]["down"]
    assert up.value == pytest.approx(0.4 / 3)
    assert up.n == 3
    assert up.low < up.value < up.high
    assert down.value == pytest.approx(-0.2)
    assert -1 < down.low < down.value < down.high < 1
