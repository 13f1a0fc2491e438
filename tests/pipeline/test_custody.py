"""Receipts, provenance, proofs, locks, signatures and the cross-check."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.core.engine import Hit
from harness.core.errors import EvidenceError, IndexNotReady
from harness.core.run import Row, Run, Status
from harness.corpus.prepared import QRELS, Prepared
from harness.corpus.runs import read_run, write_run
from harness.pipeline import experiments, receipts
from harness.pipeline.gate import decide_again, first_difference
from harness.pipeline.layout import Layout
from harness.pipeline.pins import custody, sign, signed_by
from harness.pipeline.receipts import (
    LOCK,
    SAVED,
    asked_since,
    check_corpus,
    check_same,
    index_files,
    local,
    local_lock,
    note_replayed,
    note_run,
    read_manifest,
    replayed_at,
)
from harness.pipeline.replay import replay
from harness.policy.load import load_policy
from harness.trust.reproduce import QuerySample, Requeried, requery
from tests.make.forging import forge
from tests.make.toy import CANDIDATE, CONTROL, NAME, QUERIES, Toy


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


STEP = {"step": "a", "findings": [{"gate": "g", "verdict": "pass", "n": 1}]}


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


def test_what_is_judged_is_counted_of_the_queries_that_are_asked(project: Toy) -> None:
    with (project.layout.data / QRELS).open("a") as out:
        out.write("stranger 0 d00 1\n")
    log = experiments.read(project.layout)
    found = custody(project.layout, project.project.subject(NAME), {}, log).coverage
    assert (found.queries, found.judged, found.strangers) == (QUERIES + 1, QUERIES + 1, 1)


def test_the_oldest_answer_counts(tmp_path: Path) -> None:
    assert asked_since(NOW, tmp_path / "none") == NOW
    for name, hours in (("a", 3), ("b", 50)):
        path = tmp_path / "5" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("answers")
        then = (NOW - timedelta(hours=hours)).timestamp()
        os.utime(path, (then, then))
    assert asked_since(NOW, tmp_path) == NOW - timedelta(hours=50)


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


def test_a_killed_run_is_put_right_by_the_next(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("half")
    (tmp_path / SAVED).parent.mkdir(parents=True)
    (tmp_path / SAVED).write_text("recorded")
    with local_lock(tmp_path):
        pass
    assert (tmp_path / LOCK).read_text() == "recorded"


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


HINT_RECEIPT = "Do it again."


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, ...]:
    found = (tmp_path / "a" / "one", tmp_path / "b" / "two")
    for path in found:
        path.parent.mkdir()
        path.write_text(path.name)
    receipts.write(tmp_path / "b" / "receipt.json", found)
    return found


def test_a_changed_file_is_named(files: tuple[Path, ...], tmp_path: Path) -> None:
    files[1].write_text("TWO")
    with pytest.raises(
        EvidenceError, match=r"two: was changed since .*receipt\.json .*Do it again"
    ):
        receipts.check(tmp_path / "b" / "receipt.json", files, HINT_RECEIPT)


def test_a_file_that_was_not_used_is_named(files: tuple[Path, ...], tmp_path: Path) -> None:
    (tmp_path / "three").write_text("3")
    with pytest.raises(EvidenceError, match=r"does not list .*three\. Do it again"):
        receipts.check(tmp_path / "b" / "receipt.json", (*files, tmp_path / "three"), HINT_RECEIPT)


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


def test_an_honest_run_is_what_its_engine_shows(project: Toy) -> None:
    said = requery(project.layout, BOTH, project.cache, EVERY)
    assert said == (
        Requeried(CONTROL, 41, 0, imported=False),
        Requeried(CANDIDATE, 41, 0, imported=False),
    )


def test_scores_and_lengths_are_compared_too(project: Toy) -> None:
    run = read_run(project.layout.run(CANDIDATE))
    forged(project, raw_score=run.raw_score * 1.01)
    with pytest.raises(EvidenceError, match=r"hit 1, d\d+, has the score .* the engine gives"):
        requery(project.layout, BOTH, project.cache, EVERY)
    forged(project, raw_score=run.raw_score)
    requery(project.layout, BOTH, project.cache, EVERY)


def test_a_query_without_an_answer_is_counted_and_not_compared(project: Toy) -> None:
    run = read_run(project.layout.run(CANDIDATE))
    status = run.status.copy()
    status[:3] = Status.TIMED_OUT
    forged(project, status=status)
    (said,) = requery(project.layout, {CANDIDATE: CANDIDATE}, project.cache, EVERY)
    assert (said.same, said.unanswered) == (38, 3)


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
