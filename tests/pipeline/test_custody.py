"""Receipts, provenance, proofs, locks and the cross-check."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError, IndexNotReady
from harness.core.gate import Outcome
from harness.core.scores import Scores
from harness.corpus.prepared import QRELS, Prepared
from harness.measures import kernels, quality
from harness.pipeline import experiments, receipts
from harness.pipeline import verify as verifying
from harness.pipeline.evidence import measured, pin
from harness.pipeline.gate import custody, decide_again, gate, read_decision
from harness.pipeline.index import VECTORS, keep_vectors, take_vectors
from harness.pipeline.layout import Layout
from harness.pipeline.race import read_race
from harness.pipeline.receipts import LOCK, SAVED, local_lock, note_replayed, read_manifest
from harness.pipeline.receipts import _md5 as md5
from harness.pipeline.replay import replay
from harness.pipeline.verify import verify
from harness.policy.load import load_policy
from tests.make.forging import forge
from tests.make.toy import CONTROL, GATES, HEAD, NAME, QUERIES, STEP, WHO, Toy

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
    assert datetime.fromisoformat(receipts.replayed(layout, CONTROL).at or "") >= began
    assert [path.read_bytes() for path in tracked] == before
    assert layout.replayed(CONTROL).is_relative_to(layout.today)


def test_what_is_judged_is_counted_of_the_queries_that_are_asked(project: Toy) -> None:
    with (project.layout.data / QRELS).open("a") as out:
        out.write("stranger 0 d00 1\n")
    project.judge_again()
    log = experiments.read(project.layout)
    subject = project.project.subject(NAME)
    found = custody(measured(project.layout, subject), subject, log).coverage
    assert (found.queries, found.judged, found.strangers) == (QUERIES + 1, QUERIES + 1, 1)


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
    assert receipts.index_files(layout, "over_http") is None
    (folder / "segment.bin").write_bytes(b"x")
    assert receipts.index_files(layout, "over_http") is not None


def test_the_tracked_record_is_put_back_and_the_local_one_kept(tmp_path: Path) -> None:
    tracked = tmp_path / LOCK
    tracked.write_text("recorded")
    with local_lock(tmp_path):
        assert tracked.read_text() == "recorded"
        tracked.write_text("made here")
    assert tracked.read_text() == "recorded"
    with local_lock(tmp_path):
        assert tracked.read_text() == "made here"
    assert (tracked.read_text(), receipts.local(tmp_path).read_text()) == ("recorded", "made here")
    assert not (tmp_path / SAVED).exists()


def test_a_killed_run_is_put_right_by_the_next(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("half")
    (tmp_path / SAVED).parent.mkdir(parents=True)
    (tmp_path / SAVED).write_text("recorded")
    with local_lock(tmp_path):
        pass
    assert (tmp_path / LOCK).read_text() == "recorded"


def test_other_indexes_and_other_documents_are_told_apart(measured: Toy) -> None:
    layout, wanted = measured.layout, receipts.read_manifest(measured.layout, "fts5")
    receipts.check_same(layout, "fts5", wanted, replace(wanted))
    other = replace(wanted, settings_sha256="0")
    with pytest.raises(IndexNotReady, match=f"{other.fingerprint[:12]} instead of "):
        receipts.check_same(layout, "fts5", wanted, other)
    other = replace(wanted, corpus_sha256="0")
    with pytest.raises(IndexNotReady, match="of other documents"):
        receipts.check_corpus(layout, "fts5", other, Prepared.open(layout.data))


def test_a_changed_file_and_one_that_was_not_used_are_named(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a/one", "b/two", "three")]
    for path in files:
        path.parent.mkdir(exist_ok=True)
        path.write_text(path.name)
    receipt = tmp_path / "b" / "receipt.json"
    receipts.write(receipt, files[:2])
    receipts.check(receipt, files[:2], "Do it again.")
    with pytest.raises(EvidenceError, match=r"does not list .*three\. Do it again"):
        receipts.check(receipt, files, "Do it again.")
    files[1].write_text("TWO")
    with pytest.raises(
        EvidenceError, match=r"two: was changed since .*receipt\.json .*Do it again"
    ):
        receipts.check(receipt, files[:2], "Do it again.")


AHEAD = timedelta(hours=40)


def put_off(about: dict[str, Any]) -> None:
    """Move when it was decided, and when it expires."""
    of = about["provenance"]
    for name in ("decided_at", "expires_at"):
        of[name] = (datetime.fromisoformat(of[name]) + AHEAD).isoformat(timespec="seconds")


@pytest.mark.slow
def test_a_decision_of_the_future_is_refused_by_all_that_read_it(project: Toy) -> None:
    project.decide()
    forge(project.layout, put_off)
    with pytest.raises(BadFile, match=r"decision\.json: .* from the future .*harness gate"):
        verify(project.layout)


def test_a_race_of_the_future_is_refused(project: Toy) -> None:
    times = project.layout.times
    table = pq.read_table(times)
    ahead = (datetime.now(UTC) + AHEAD).isoformat().encode()
    about = {**(table.schema.metadata or {}), b"raced_at": ahead}
    pq.write_table(table.replace_schema_metadata(about), times)
    with pytest.raises(EvidenceError, match=r"from the future .*harness race"):
        read_race(project.layout)


LATER = """
[[step]]
name = "back"
control = "tantivy"
candidate = "fts5"
taken = false
"""


@pytest.fixture(scope="module")
def taken(measured: Toy, tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Take the step by the decision that promoted it, and let another one follow."""
    made = measured.copied(tmp_path_factory.mktemp("taken") / "project")
    made.untimed()
    assert made.decide().outcome is Outcome.PROMOTE
    (made.root / "policy" / "kept.json").write_bytes(made.layout.decision.read_bytes())
    name(made)
    made.judge_again()
    return made


@pytest.fixture
def chain(taken: Toy, tmp_path: Path) -> Toy:
    """Copy it, for a test to spoil."""
    return taken.copied(tmp_path / "project")


def name(project: Toy) -> None:
    """Write the policy whose step was taken by the decision that was kept."""
    baseline = read_manifest(project.layout, CONTROL).fingerprint
    sha256 = digest.of_file(project.root / "policy" / "kept.json")
    taken = (
        f'taken = true\nbaseline = "{baseline}"\n'
        f'accepted = "kept.json"\naccepted_sha256 = "{sha256}"'
    )
    project.policy(HEAD + STEP.replace("taken = false", taken) + GATES + LATER + WHO)


def decide(project: Toy) -> None:
    gate(project.layout, project.project.subject(NAME), now=datetime.now(UTC))


@pytest.mark.slow
def test_the_next_decision_names_the_one_that_accepted_its_control(chain: Toy) -> None:
    sha256 = digest.of_file(chain.root / "policy" / "kept.json")
    decide(chain)
    read, _ = read_decision(chain.layout)
    assert [one.accepted_by for one in read] == ["", sha256]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"outcome": "hold"}, "fts5 -> tantivy in step tantivy, but says fts5 tantivy hold"),
        ({"control": "dense"}, "but says dense tantivy promote"),
        ({"step": "none"}, "is not a decision on step tantivy of toy"),
        ({"outcome": None}, "but says fts5 tantivy None"),
        (lambda of: of.update(dataset="other"), "is not a decision on step tantivy of toy"),
        (lambda of: of.pop("provenance"), "is not a decision"),
        (
            lambda of: of["provenance"]["arms"]["tantivy"].update(fingerprint="f" * 64),
            r"step back is judged against tantivy \w{12}, and .* accepted ffffffffffff",
        ),
    ],
)
def test_a_decision_that_did_not_accept_it_is_refused(chain: Toy, change: Any, says: str) -> None:  # noqa: ANN401
    kept = chain.root / "policy" / "kept.json"
    written = json.loads(kept.read_text())
    (about,) = written["datasets"]
    if isinstance(change, dict):
        about["steps"][0].update(change)
    else:
        change(about)
    kept.write_text(json.dumps(written))
    name(chain)
    with pytest.raises((EvidenceError, BadFile), match=says):
        decide(chain)


@pytest.mark.slow
def test_a_kernel_that_is_wrong(project: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = kernels.evaluate
    monkeypatch.setattr(kernels, "evaluate", lambda *given: np.minimum(honest(*given) + 1e-6, 1))
    project.untimed()
    project.judge_again()
    project.decide()
    with pytest.raises(EvidenceError, match="but ir-measures says"):
        verify(project.layout)
    verify(project.layout, deep=False)


def test_what_one_machine_kept_another_one_uses(project: Toy, tmp_path: Path) -> None:
    layout, root, cache = project.layout, project.root, tmp_path / "cache"
    assert take_vectors(root, layout, "dense", cache) is None, "there is no record"
    keep_vectors(root, layout, ["fts5", "hash-hybrid", "dense", "hybrid"], tmp_path / "first")
    made = "all texts by one model, queries of the hybrid by another, and words have none"
    assert len(list((root / VECTORS).iterdir())) == 2, made
    for name in ("dense", "hybrid"):
        said = take_vectors(root, layout, name, cache)
        assert said is not None
        assert said.used
    for name in ("fts5", "hash-hybrid"):
        assert take_vectors(root, layout, name, cache) is None


@pytest.mark.slow
def test_a_decision_of_other_bytes_than_the_policy_names_accepts_nothing(chain: Toy) -> None:
    kept = chain.root / "policy" / "kept.json"
    kept.write_text(kept.read_text() + "\n")
    with pytest.raises(BadFile, match=r"kept\.json: is not the file \w{12} that step tantivy was"):
        decide(chain)


def test_a_race_of_other_settings_is_not_as_pinned(project: Toy) -> None:
    subject = project.project.subject(NAME)
    pin(project.layout, project.project.policy_file, at=datetime.now(UTC), by="me")
    found = replace(measured(project.layout, subject), race_settings={"k": 7})
    said = custody(found, subject, experiments.read(project.layout)).pin.differences
    assert any(one.startswith("race k is 7, pinned ") for one in said)


def test_a_value_that_the_library_does_not_have_is_no_confirmation(
    project: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = quality.oracle

    def short(*given: Any) -> dict[str, Scores]:  # noqa: ANN401  as the function
        found = honest(*given)
        return {name: one.only(one.query_ids[1:]) for name, one in found.items()}

    monkeypatch.setattr(verifying, "oracle", short)
    with pytest.raises(EvidenceError, match="but ir-measures says None"):
        verifying.check_values(project.layout)


def test_what_a_file_manager_leaves_in_a_folder_is_not_of_its_digest(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text("{}")
    before = md5(tmp_path)
    (tmp_path / ".DS_Store").write_text("x")
    assert md5(tmp_path) == before
