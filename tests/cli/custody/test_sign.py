"""``harness sign`` and ``harness verify --signed-by`` as they are typed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Harness
from tests.make.forging import forge
from tests.make.toy import Toy
from tests.pipeline.custody.test_signature import allowed, key

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no OpenSSH here")


@pytest.fixture
def decided(project: Toy) -> Toy:
    project.decide()
    return project


@pytest.mark.slow
def test_who_signed_is_told(decided: Toy, harness: Harness, tmp_path: Path) -> None:
    mine, other = key(tmp_path, "me"), key(tmp_path, "somebody")
    assert "signature            unsigned" in harness("verify").out
    said = harness("sign", "--key", mine)
    assert (said.code, said.out) == (0, f"signed: {decided.layout.signature}\n")
    assert "receipt.json.sig, not checked: name --signed-by" in harness("verify").out
    said = harness("verify", "--signed-by", allowed(tmp_path, other, mine))
    assert "signature            by me@example.org, of" in said.out
    error = harness("verify", "--signed-by", allowed(tmp_path, other)).error
    assert "receipt.json.sig: is by a key that" in error


def test_a_forged_decision_is_not_signed(decided: Toy, harness: Harness, tmp_path: Path) -> None:
    forge(decided.layout, lambda about: about["trust"]["alpha"].update(allowed=0.001))
    error = harness("sign", "--key", key(tmp_path, "me")).error
    assert "trust.alpha.allowed: stored 0.001, derived 0.25" in error
    assert not decided.layout.signature.exists()
