"""Receipts, provenance, proofs, locks, signatures and the cross-check."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
import harness_engines
from harness.agreement import agree
from harness.core import batches
from harness.core.engine import Answer, Hit
from harness.core.errors import BadFile, EvidenceError, HarnessError, IndexNotReady
from harness.core.evidence import Agreement
from harness.core.run import Row, Run, Status
from harness.core.scores import Scores
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run, write_run
from harness.measures.quality import oracle, score
from harness.pipeline import receipts
from harness.pipeline.dvc import LOCK, SAVED, local, local_lock
from harness.pipeline.evidence import sides
from harness.pipeline.gate import decide_again, first_difference, gate
from harness.pipeline.layout import Layout
from harness.pipeline.pins import NAMESPACE, sign, signed_by
from harness.pipeline.provenance import provenance
from harness.pipeline.receipts import (
    asked_since,
    check_all,
    check_corpus,
    check_run,
    check_same,
    index_files,
    note_replayed,
    note_run,
    read_manifest,
    replayed,
    replayed_at,
)
from harness.pipeline.replay import import_run, replay
from harness.pipeline.verify import same_values, verify
from harness.policy.load import load_policy
from harness.trust.requery import QuerySample, Requeried, requery
from harness_engines.stacks.text.tantivy import TantivySearcher
from tests.make.forging import HONEST, crosscheck, forge
from tests.make.runs import random_case
from tests.make.toy import ARMS, CANDIDATE, CONTROL, NAME, QUERIES, Toy

DEPTHS = (3, 10)
LISTS = st.lists(
    st.tuples(*[st.lists(st.sampled_from("abcdefghijkl"), unique=True, max_size=12)] * 2),
    min_size=1,
    max_size=12,
)


def run(arm: str, rankings: Sequence[Sequence[str]], failed: frozenset[int] = frozenset()) -> Run:
    return Run.of(
        arm,
        [
            Row(f"q{at}", Status.FAILED, error="broken pipe")
            if at in failed
            else Row(f"q{at}", Status.ANSWERED, [Hit(doc, 1.0, 1.0) for doc in docs], "me")
            for at, docs in enumerate(rankings)
        ],
    )


def agreement(control: Run, candidate: Run) -> Agreement:
    return agree(control, candidate, depths=DEPTHS, p=0.9)


def spoilt(found: Agreement, name: str, value: float | None) -> Agreement:
    """Give the first query another value of ``name``, or none."""
    old = found.scores[name]
    if value is None:
        gone = Scores(name, old.query_ids[1:], old.values[1:], {"both_empty": old.query_ids[:1]})
        return replace(found, scores={**found.scores, name: gone})
    values = np.concatenate([[value], old.values[1:]])
    return replace(found, scores={**found.scores, name: replace(old, values=values)})


@given(LISTS, st.frozensets(st.integers(0, 11)))
def test_the_kernels_and_the_textbook_agree(
    lists: list[tuple[list[str], list[str]]], failed: frozenset[int]
) -> None:
    control = run("a", [left for left, _ in lists])
    candidate = run("b", [right for _, right in lists], failed)
    found = agreement(control, candidate)
    crosscheck(control, candidate, found)


@pytest.mark.parametrize(
    ("name", "value"),
    [("Jaccard@3", 0.5), ("Jaccard@10", 0.5), ("tau", 0.0), ("tau", -2.0), ("tau", None)],
)
def test_a_wrong_value_is_named(name: str, value: float | None) -> None:
    control, candidate = run("a", ["abcd", "ab"]), run("b", ["bacdef", "ab"])
    found = spoilt(agreement(control, candidate), name, value)
    with pytest.raises(
        EvidenceError, match=rf"{name} of a and b for query q0 is .* the check gives"
    ):
        crosscheck(control, candidate, found)


def test_a_value_for_two_empty_lists_is_named() -> None:
    control, candidate = run("a", ["", "a"]), run("b", ["", "a"])
    found = agreement(control, candidate)
    same = Scores("Jaccard@3", ("q0", "q1"), np.ones(2), {})
    wrong = replace(found, scores={**found.scores, "Jaccard@3": same})
    with pytest.raises(EvidenceError, match=r"query q0 is 1\.0, but the check gives None"):
        crosscheck(control, candidate, wrong)


def test_quality_is_what_ir_measures_says() -> None:
    control, qrels = random_case(3)
    asked = (("nDCG@10", "RR@10"), control.query_ids)
    same_values("a", score(control, qrels, *asked), oracle(control, qrels, *asked))


@pytest.mark.parametrize("value", [0.123, None])
def test_a_wrong_kernel_is_named(value: float | None) -> None:
    control, qrels = random_case(3, queries=5)
    found = dict(score(control, qrels, ("nDCG@10", "RR@10"), control.query_ids))
    old = found["RR@10"]
    found["RR@10"] = (
        Scores("RR@10", old.query_ids[1:], old.values[1:], {"failed": old.query_ids[:1]})
        if value is None
        else replace(old, values=np.concatenate([[value], old.values[1:]]))
    )
    library = oracle(control, qrels, ("nDCG@10", "RR@10"), control.query_ids)
    with pytest.raises(EvidenceError, match=r"RR@10 of arm for query q0 is .* fix harness.measu"):
        same_values("arm", found, library)


STEP = {"step": "a", "findings": [{"gate": "g", "verdict": "pass", "n": 1}]}


def test_what_is_equal_differs_nowhere() -> None:
    assert first_difference({"a": [1, None, "x"]}, {"a": [1, None, "x"]}) is None


@pytest.mark.parametrize(
    ("stored", "derived", "says"),
    [
        ([STEP], [{**STEP, "findings": [{"gate": "g", "verdict": "fail", "n": 1}]}],
         'a.findings.g.verdict: stored "pass", derived "fail"'),
        ({"a": 1}, {"a": 1, "b": 2}, "b: stored nothing, derived 2"),
        ({"a": [1, 2]}, {"a": [1]}, "a.1: stored 2, derived nothing"),
        ({"a": 1}, {"a": 1.0}, "a: stored 1, derived 1.0"),
        ({"a": None}, {"a": {"b": 1}}, 'a: stored null, derived {"b": 1}'),
        ({"a": "x" * 300}, {"a": 0}, f'a: stored "{"x" * 199}..., derived 0'),
    ],
)  # fmt: skip
def test_the_first_difference_is_named(stored: Any, derived: Any, says: str) -> None:  # noqa: ANN401
    assert str(first_difference(stored, derived)) == says


NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
HINT = rf"Run: harness stage replay --dataset {NAME} --arm {CONTROL}"


def aged(project: Toy, days: float) -> None:
    """Make the control's run so many days old."""
    note_replayed(project.layout, CONTROL, datetime.now(UTC) - timedelta(days=days))


def test_a_replay_notes_when_it_began_beside_files_that_do_not_move(project: Toy) -> None:
    layout = project.layout
    tracked = [layout.run(CONTROL), layout.again(CONTROL), layout.run_receipt(CONTROL)]
    before = [path.read_bytes() for path in tracked]
    aged(project, 1)
    began = datetime.now(UTC).replace(microsecond=0)
    replay(layout, CONTROL, project.cache, project.params.replay)
    assert datetime.fromisoformat(replayed_at(layout, CONTROL) or "") >= began
    assert [path.read_bytes() for path in tracked] == before
    assert layout.replayed(CONTROL).is_relative_to(layout.today)


def test_the_oldest_answer_counts(tmp_path: Path) -> None:
    assert asked_since(NOW, tmp_path / "none") == NOW
    for name, hours in (("a", 3), ("b", 50)):
        path = tmp_path / "5" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("answers")
        then = (NOW - timedelta(hours=hours)).timestamp()
        os.utime(path, (then, then))
    assert asked_since(NOW, tmp_path) == NOW - timedelta(hours=50)


def test_an_imported_run_is_as_old_as_its_taking_in(project: Toy, tmp_path: Path) -> None:
    (tmp_path / "x.trec").write_text("q00 Q0 d00 1 1.5 x\n")
    import_run(project.layout, "x", tmp_path / "x.trec")
    at = datetime.fromisoformat(replayed_at(project.layout, "x") or "")
    assert timedelta(0) <= datetime.now(UTC) - at < timedelta(minutes=5)


@pytest.mark.slow
def test_a_run_that_is_too_old_is_not_judged(project: Toy) -> None:
    aged(project, 1.9)
    project.decide()
    aged(project, 2.1)
    says = rf"fts5\.parquet: .* 2 days old, and the policy takes none older than 2.*{HINT}"
    with pytest.raises(EvidenceError, match=says):
        project.decide()
    assert not project.layout.decision.exists()
    file = project.root / "policy" / "toy.toml"
    with pytest.raises(EvidenceError, match=says):
        decide_again(project.layout, load_policy(file), file, control="", now=datetime.now(UTC))


@pytest.mark.slow
def test_an_arm_that_no_gate_looks_at_may_be_old(project: Toy) -> None:
    now = datetime.now(UTC)
    note_replayed(project.layout, "hash-hybrid", now - timedelta(days=9))
    gate(project.layout, project.project.subject(NAME), now=now)


@pytest.mark.parametrize("spoil", ["gone", "of another run"])
def test_a_run_of_unknown_age_is_not_judged(project: Toy, spoil: str) -> None:
    if spoil == "gone":
        project.layout.replayed(CONTROL).unlink()
    else:
        other = project.layout.replayed(CANDIDATE).read_bytes()
        project.layout.replayed(CONTROL).write_bytes(other)
    assert replayed_at(project.layout, CONTROL) is None
    with pytest.raises(EvidenceError, match=rf"may be of any age\. {HINT}"):
        project.decide()


def test_a_note_that_is_none_is_named(project: Toy) -> None:
    project.layout.replayed(CONTROL).write_text("[]")
    with pytest.raises(BadFile, match=rf"fts5\.json: .*{HINT}"):
        replayed(project.layout, CONTROL)


@pytest.mark.slow
def test_the_decision_says_it_and_rests_on_it(project: Toy) -> None:
    project.decide()
    (about,) = json.loads(project.layout.decision.read_text())["datasets"]
    shown = about["provenance"]["replayed_at"]
    assert shown[CONTROL] == replayed_at(project.layout, CONTROL)
    assert b"replayed_at" not in project.layout.findings.read_bytes()
    aged(project, 1)
    with pytest.raises(EvidenceError, match=r"fts5\.json: was changed since"):
        check_all(project.layout.decision_receipt, "Run it")


def test_an_engine_that_runs_elsewhere_has_no_index_that_is_counted(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "root", tmp_path / "today", tmp_path / "cache")
    folder = layout.index("over_http")
    folder.mkdir(parents=True)
    for name in ("manifest.json", "ids.json"):
        (folder / name).write_text("{}")
    assert index_files(layout, "over_http") is None
    (folder / "segment.bin").write_bytes(b"x")
    assert index_files(layout, "over_http") is not None


def test_the_tracked_record_is_put_back_and_the_local_one_kept(tmp_path: Path) -> None:
    tracked = tmp_path / LOCK
    tracked.write_text("recorded")
    with local_lock(tmp_path):
        assert tracked.read_text() == "recorded"
        tracked.write_text("made here")
    assert tracked.read_text() == "recorded"
    with local_lock(tmp_path):
        assert tracked.read_text() == "made here"
    assert (tracked.read_text(), local(tmp_path).read_text()) == ("recorded", "made here")
    assert not (tmp_path / SAVED).exists()


def test_it_is_put_back_where_the_pipeline_fails(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("recorded")

    def half() -> None:
        with local_lock(tmp_path):
            (tmp_path / LOCK).write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert (tmp_path / LOCK).read_text() == "recorded"


def test_a_killed_run_is_put_right_by_the_next(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("half")
    (tmp_path / SAVED).parent.mkdir(parents=True)
    (tmp_path / SAVED).write_text("recorded")
    with local_lock(tmp_path):
        pass
    assert (tmp_path / LOCK).read_text() == "recorded"


def test_a_project_without_a_record_gets_its_own(tmp_path: Path) -> None:
    with local_lock(tmp_path):
        (tmp_path / LOCK).write_text("made here")
    assert local(tmp_path).read_text() == "made here"
    assert (tmp_path / LOCK).read_text() == "made here"


@pytest.mark.parametrize("arm", ARMS)
def test_a_measured_arm_is_proven(measured: Toy, arm: str) -> None:
    check_run(measured.layout, arm)
    made = read_manifest(measured.layout, arm)
    check_corpus(measured.layout, arm, made, Prepared.open(measured.layout.data))


@pytest.mark.parametrize("text", ["{", "[]", '{"engine": "x"}', '{"engine": 1, "colour": 2}'])
def test_a_manifest_that_is_none_is_named(project: Toy, text: str) -> None:
    project.layout.manifest("fts5").write_text(text)
    with pytest.raises(BadFile, match=r"fts5\.json.*harness stage index --dataset toy"):
        read_manifest(project.layout, "fts5")


def test_two_indexes_are_told_apart(measured: Toy) -> None:
    wanted = read_manifest(measured.layout, "fts5")
    check_same(measured.layout, "fts5", wanted, replace(wanted))
    other = replace(wanted, settings_sha256="0")
    with pytest.raises(IndexNotReady, match=f"{other.fingerprint[:12]} instead of "):
        check_same(measured.layout, "fts5", wanted, other)


def test_other_documents_are_told_apart(measured: Toy) -> None:
    other = replace(read_manifest(measured.layout, "fts5"), corpus_sha256="0")
    with pytest.raises(IndexNotReady, match="of other documents"):
        check_corpus(measured.layout, "fts5", other, Prepared.open(measured.layout.data))


def test_a_run_that_was_changed_is_refused_until_it_is_noted(project: Toy) -> None:
    project.layout.run("fts5").write_bytes(project.layout.run("tantivy").read_bytes())
    with pytest.raises(
        EvidenceError, match=r"fts5\.parquet: was changed since .*harness stage replay"
    ):
        check_run(project.layout, "fts5")
    note_run(project.layout, "fts5")
    check_run(project.layout, "fts5")


DECIDED = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(("days", "expires"), [(None, None), (3, "2026-02-03T12:00:00+00:00")])
def test_a_decision_expires_where_a_policy_says_so(
    measured: Toy, days: int | None, expires: str | None
) -> None:
    arms = sides(measured.layout, ARMS)
    found = provenance(
        Prepared.open(measured.layout.data),
        arms,
        licence="CC0-1.0",
        source="by hand",
        seed=5,
        commands=["harness run"],
        decided_at=DECIDED,
        evidence_days=days,
        replayed_at={CONTROL: "2026-01-30T12:00:00+00:00"},
        settings={"score": {"seed": 5}},
    )
    assert (found.decided_at, found.expires_at) == ("2026-01-31T12:00:00+00:00", expires)
    assert (found.documents, found.queries, found.judgements) == (60, 41, 2401)
    assert found.manifests == {arm: arms[arm].manifest for arm in ARMS}
    assert {"numpy", "tantivy", "ir-measures"} <= set(found.packages)
    assert found.commands == ("harness run",)
    assert found.settings == {"score": {"seed": 5}}
    assert found.replayed_at == {CONTROL: "2026-01-30T12:00:00+00:00"}


def test_the_codes_digest_is_of_every_module_and_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in (harness, harness_engines):
        folder = tmp_path / package.__name__
        shutil.copytree(package.__path__[0], folder, ignore=shutil.ignore_patterns("*.pyc"))
        monkeypatch.setattr(package.__spec__, "submodule_search_locations", [str(folder)])
    code_sha256 = batches.code_sha256.__wrapped__
    before = code_sha256()
    assert code_sha256() == before
    seen = {before}
    for name in (
        "harness_engines/arms/fts5.toml",
        "harness/report/page/view.py",
        "harness/stats/bootstrap.py",
    ):
        with (tmp_path / name).open("a") as out:
            out.write("\n# changed\n")
        seen.add(code_sha256())
    assert len(seen) == 4


HINT_RECEIPT = "Do it again."


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, ...]:
    found = (tmp_path / "a" / "one", tmp_path / "b" / "two")
    for path in found:
        path.parent.mkdir()
        path.write_text(path.name)
    receipts.write(tmp_path / "b" / "receipt.json", found)
    return found


def test_files_that_did_not_change_fit(files: tuple[Path, ...], tmp_path: Path) -> None:
    receipts.check(tmp_path / "b" / "receipt.json", files, HINT_RECEIPT)
    receipts.check(tmp_path / "b" / "receipt.json", files[:1], HINT_RECEIPT)


def test_a_receipt_is_the_same_wherever_the_folder_lies(
    files: tuple[Path, ...], tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    for name in ("a", "b"):
        (tmp_path / name).rename(moved / name) if moved.exists() else None
    noted = (tmp_path / "b" / "receipt.json").read_text()
    assert '"../a/one"' in noted
    assert '"two"' in noted
    assert str(tmp_path) not in noted
    assert len(files) == 2


def test_a_changed_file_is_named(files: tuple[Path, ...], tmp_path: Path) -> None:
    files[1].write_text("TWO")
    with pytest.raises(
        EvidenceError, match=r"two: was changed since .*receipt\.json .*Do it again"
    ):
        receipts.check(tmp_path / "b" / "receipt.json", files, HINT_RECEIPT)


def test_a_missing_file_is_named(files: tuple[Path, ...], tmp_path: Path) -> None:
    files[0].unlink()
    with pytest.raises(EvidenceError, match=r"one: is gone since"):
        receipts.check(tmp_path / "b" / "receipt.json", files, HINT_RECEIPT)


def test_a_file_that_was_not_used_is_named(files: tuple[Path, ...], tmp_path: Path) -> None:
    (tmp_path / "three").write_text("3")
    with pytest.raises(EvidenceError, match=r"does not list .*three\. Do it again"):
        receipts.check(tmp_path / "b" / "receipt.json", (*files, tmp_path / "three"), HINT_RECEIPT)


def test_a_missing_receipt_is_no_evidence(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="nothing was measured yet"):
        receipts.check(tmp_path / "receipt.json", (), HINT_RECEIPT)


def test_a_broken_receipt_is_no_evidence(tmp_path: Path) -> None:
    (tmp_path / "receipt.json").write_text("{")
    with pytest.raises(EvidenceError, match="is not a receipt"):
        receipts.check(tmp_path / "receipt.json", (), HINT_RECEIPT)


EVERY = QuerySample(QUERIES + 1, 1)
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


def key(folder: Path, name: str) -> Path:
    """Make a key without a passphrase."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
    subprocess.run(words, check=True)
    return folder / name


def allowed(folder: Path, *keys: Path) -> Path:
    lines = [f"{one.name}@example.org {one.with_suffix('.pub').read_text()}" for one in keys]
    (folder / "allowed").write_text("".join(lines))
    return folder / "allowed"


@pytest.fixture
def decided(project: Toy) -> Toy:
    project.decide()
    return project


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no OpenSSH here")
@pytest.mark.slow
def test_receipts_written_anew_break_the_signature(decided: Toy, tmp_path: Path) -> None:
    mine = key(tmp_path, "me")
    may = allowed(tmp_path, mine)
    sign(decided.layout, mine)
    assert signed_by(decided.layout, may) == "me@example.org"
    forge(decided.layout, lambda about: about["provenance"].update(licence="none"))
    with pytest.raises(EvidenceError, match="was written anew since it was signed"):
        signed_by(decided.layout, may)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no OpenSSH here")
@pytest.mark.slow
def test_the_next_decision_is_unsigned(decided: Toy, tmp_path: Path) -> None:
    mine = key(tmp_path, "me")
    sign(decided.layout, mine)
    decided.decide(later_s=1)
    with pytest.raises(EvidenceError, match=r"the decision is unsigned\. Run: harness sign"):
        signed_by(decided.layout, allowed(tmp_path, mine))


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no OpenSSH here")
@pytest.mark.slow
def test_a_signature_of_something_else_does_not_count(decided: Toy, tmp_path: Path) -> None:
    mine = key(tmp_path, "me")
    receipt = decided.layout.decision_receipt
    words = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(mine), "-n", f"not-{NAMESPACE}"]
    subprocess.run([*words, str(receipt)], check=True)
    with pytest.raises(EvidenceError, match="does not fit"):
        signed_by(decided.layout, allowed(tmp_path, mine))


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no OpenSSH here")
@pytest.mark.slow
def test_what_is_no_key_is_named(decided: Toy, tmp_path: Path) -> None:
    (tmp_path / "none").write_text("no key")
    with pytest.raises(BadFile, match="none: did not sign"):
        sign(decided.layout, tmp_path / "none")
    sign(decided.layout, key(tmp_path, "me"))
    with pytest.raises(BadFile, match="missing file"):
        signed_by(decided.layout, tmp_path / "nobody")


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no OpenSSH here")
@pytest.mark.slow
def test_without_openssh_it_is_said(
    decided: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(HarnessError, match="ssh-keygen is not on the path"):
        sign(decided.layout, tmp_path / "me")


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no OpenSSH here")
def test_nothing_decided_is_nothing_to_sign(project: Toy, tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="nothing was decided"):
        sign(project.layout, tmp_path / "me")
