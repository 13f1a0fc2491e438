"""A signature over a decision's receipt, which names the decision and all its evidence by digest.

Made and checked by OpenSSH (``ssh-keygen -Y``): keys and the list of who may sign stay outside the
repository. A decision without one is unsigned, and that is said.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.reading import text_of
from harness.stages.layout import Layout

NAMESPACE = "search-harness-decision"
"""A signature made for something else does not count."""


def sign(layout: Layout, key: Path) -> Path:
    """Sign the receipt of the decision in ``layout`` with the private ``key``; give the signature.

    ssh-keygen asks for the passphrase of a key that has one; an agent is used where one runs.

    Raises:
        EvidenceError: nothing was decided.
        BadFile: the key cannot be used.
        HarnessError: OpenSSH is not installed.
    """
    receipt = _receipt(layout)
    layout.signature.unlink(missing_ok=True)
    made = _ssh_keygen("-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(receipt))
    if made.returncode:
        hint = "Name a private key of OpenSSH, or a public one whose private one an agent holds"
        raise BadFile(key, f"did not sign ({made.stderr.strip()})", hint)
    return layout.signature


def signed_by(layout: Layout, allowed: Path) -> str:
    """Give who signed the decision in ``layout``, of those in the file ``allowed``.

    ``allowed`` is a list of allowed signers as ssh-keygen(1) has it: a name and a public key a
    line.

    Raises:
        EvidenceError: it is unsigned, was changed since it was signed, or by none of these.
        HarnessError: OpenSSH is not installed.
    """
    receipt = _receipt(layout)
    if not layout.signature.is_file():
        raise EvidenceError(f"{layout.signature}: the decision is unsigned. Run: harness sign")
    if not allowed.is_file():
        raise BadFile(allowed, "missing file", "Write a name and a public key a line")
    about = ("-f", str(allowed), "-s", str(layout.signature))
    found = _ssh_keygen("-Y", "find-principals", *about)
    names = found.stdout.split()
    if found.returncode or not names:
        raise EvidenceError(f"{layout.signature}: is by a key that {allowed} does not name")
    text = text_of(receipt)
    words = ("-Y", "verify", *about, "-I", names[0], "-n", NAMESPACE)
    if _ssh_keygen(*words, given=text).returncode:
        raise EvidenceError(
            f"{layout.signature}: does not fit {receipt}, which was written anew since it was"
            " signed. Look at what changed, and sign again: harness sign"
        )
    return names[0]


def _receipt(layout: Layout) -> Path:
    if not layout.decision_receipt.is_file():
        raise EvidenceError(f"{layout.decision_receipt}: nothing was decided. Run: harness gate")
    return layout.decision_receipt


def _ssh_keygen(*words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise HarnessError("ssh-keygen is not on the path; install OpenSSH 8.2 or later")
    return subprocess.run(  # noqa: S603  our own words
        [program, *words], input=given, capture_output=True, text=True, check=False
    )
