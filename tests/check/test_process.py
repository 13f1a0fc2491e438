"""The check that starts another process: what differs by hashes is seen, and so is a failure."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest

from harness.check import answers
from harness.check.subject import Finding, Named, Outcome, examine, standing
from harness_engines import registry
from tests.make.toy_engine import Toy
from tests.source import ROOT

pytestmark = pytest.mark.slow
(CHECK,) = answers.PROCESS_CHECKS
RETURN = "return Answer(by_best(named, k), self.manifest.fingerprint)"
HASHED = (
    "return Answer(tuple(hit._replace(score=1 / (1 + hash(hit.doc_id) % 10**6))"
    " for hit in by_best(named, k)), self.manifest.fingerprint)"
)


def examined(folder: Path, after: str, *, later: str = "") -> Finding:
    """Check the example with another last line; ``later`` replaces it once the index is open."""
    for file in (ROOT / "examples" / "own_engine").glob("own.*"):
        shutil.copy(file, folder)
    own = folder / "own.py"
    text = own.read_text("utf-8")
    assert RETURN in text
    own.write_text(text.replace(RETURN, after), "utf-8")
    arm = Named(str(folder / "own.toml"), folder / "cache")
    with standing(registry.load(*arm), folder, arm=arm) as subject:
        if later:
            own.write_text(text.replace(RETURN, later), "utf-8")
        return examine(CHECK, subject)


def test_an_engine_whose_answers_rest_on_its_documents_passes(tmp_path: Path) -> None:
    printing = f"print('searching', end='')\n        {RETURN}"
    assert examined(tmp_path, printing).outcome is Outcome.HOLDS


def test_an_engine_whose_answers_rest_on_hashes_is_named(tmp_path: Path) -> None:
    finding = examined(tmp_path, HASHED)
    assert finding.broken
    assert finding.violations[0].endswith(", in another process")
    assert "To fix: Sort what comes out of a set" in str(finding)


def test_a_process_that_fails_is_a_violation(tmp_path: Path) -> None:
    finding = examined(tmp_path, RETURN, later="return ((")
    assert finding.violations[0].startswith("the other process failed: ")
    assert "own.py cannot be imported: SyntaxError" in finding.violations[0]


def test_an_engine_that_is_an_object_is_not_checked(tmp_path: Path) -> None:
    with standing(Toy(), tmp_path) as subject:
        finding = examine(CHECK, subject)
    assert (finding.outcome, "TOML file" in finding.reason) == (Outcome.NOT_CHECKED, True)


def test_the_other_end_answers_what_stands_on_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arm = Named("fts5", tmp_path / "cache")
    with standing(registry.load(*arm), tmp_path) as subject:
        given = {"arm": "fts5", "cache": str(arm.cache), "index": str(subject.index)}
        asked = {**given, "queries": [["honey bees hive", 2], ["zzz", 2]]}
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(asked)))
        answers.answer()
    found, nothing = json.loads(capsys.readouterr().out)
    assert found == ["", [["bees", 1.0]]]
    assert nothing == ["", []]
