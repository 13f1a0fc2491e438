"""A decision is unsigned, or signed by somebody who may, and then nothing below it changed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.pipeline.pins import NAMESPACE, sign, signed_by
from tests.make.forging import forge
from tests.make.toy import Toy

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no OpenSSH here")


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


@pytest.mark.slow
def test_receipts_written_anew_break_the_signature(decided: Toy, tmp_path: Path) -> None:
    mine = key(tmp_path, "me")
    may = allowed(tmp_path, mine)
    sign(decided.layout, mine)
    assert signed_by(decided.layout, may) == "me@example.org"
    forge(decided.layout, lambda about: about["provenance"].update(licence="none"))
    with pytest.raises(EvidenceError, match="was written anew since it was signed"):
        signed_by(decided.layout, may)


@pytest.mark.slow
def test_the_next_decision_is_unsigned(decided: Toy, tmp_path: Path) -> None:
    mine = key(tmp_path, "me")
    sign(decided.layout, mine)
    decided.decide(later_s=1)
    with pytest.raises(EvidenceError, match=r"the decision is unsigned\. Run: harness sign"):
        signed_by(decided.layout, allowed(tmp_path, mine))


@pytest.mark.slow
def test_a_signature_of_something_else_does_not_count(decided: Toy, tmp_path: Path) -> None:
    mine = key(tmp_path, "me")
    receipt = decided.layout.decision_receipt
    words = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(mine), "-n", f"not-{NAMESPACE}"]
    subprocess.run([*words, str(receipt)], check=True)
    with pytest.raises(EvidenceError, match="does not fit"):
        signed_by(decided.layout, allowed(tmp_path, mine))


@pytest.mark.slow
def test_what_is_no_key_is_named(decided: Toy, tmp_path: Path) -> None:
    (tmp_path / "none").write_text("no key")
    with pytest.raises(BadFile, match="none: did not sign"):
        sign(decided.layout, tmp_path / "none")
    sign(decided.layout, key(tmp_path, "me"))
    with pytest.raises(BadFile, match="missing file"):
        signed_by(decided.layout, tmp_path / "nobody")


@pytest.mark.slow
def test_without_openssh_it_is_said(
    decided: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(HarnessError, match="ssh-keygen is not on the path"):
        sign(decided.layout, tmp_path / "me")


def test_nothing_decided_is_nothing_to_sign(project: Toy, tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="nothing was decided"):
        sign(project.layout, tmp_path / "me")
