"""A step that was taken, held against the decision that it was taken by."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.core import digest
from harness.core.errors import BadFile, BadPolicy, EvidenceError
from harness.core.gate import Outcome
from harness.pipeline.gate import gate, read_decision
from harness.pipeline.receipts import read_manifest
from harness.policy.load import load_policy
from tests.make.toy import CONTROL, GATES, HEAD, NAME, STEP, Toy

pytestmark = pytest.mark.slow
LATER = """
[[step]]
name = "back"
control = "tantivy"
candidate = "fts5"
taken = false

[[step.gate]]
name = "Who answers"
rule = "identity"
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


def name(project: Toy, sha256: str | None = None) -> str:
    """Write the policy whose step was taken by the decision that was kept."""
    baseline = read_manifest(project.layout, CONTROL).fingerprint
    sha256 = sha256 or digest.of_file(project.root / "policy" / "kept.json")
    taken = (
        f'taken = true\nbaseline = "{baseline}"\n'
        f'accepted = "kept.json"\naccepted_sha256 = "{sha256}"'
    )
    project.policy(HEAD + STEP.replace("taken = false", taken) + GATES + LATER)
    return sha256


def decided(project: Toy) -> Any:  # noqa: ANN401  what json gives back
    gate(project.layout, project.project.subject(NAME), now=datetime.now(UTC))
    return json.loads(project.layout.decision.read_text())["datasets"][0]


def changed(project: Toy, change: Any) -> None:  # noqa: ANN401  any function
    """Change the decision that was kept, and let the policy name its new digest."""
    kept = project.root / "policy" / "kept.json"
    written = json.loads(kept.read_text())
    change(written["datasets"][0])
    kept.write_text(json.dumps(written))
    name(project)


def test_the_next_decision_names_the_one_that_accepted_its_control(chain: Toy) -> None:
    sha256 = digest.of_file(chain.root / "policy" / "kept.json")
    first, second = decided(chain)["steps"]
    assert (first["accepted_by"], second["accepted_by"]) == ("", sha256)
    read, _ = read_decision(chain.layout)
    assert [one.accepted_by for one in read] == ["", sha256]


def test_other_bytes_are_refused(chain: Toy) -> None:
    with (chain.root / "policy" / "kept.json").open("a") as out:
        out.write(" ")
    says = r"kept\.json: is \w{12}, and step tantivy was taken by \w{12}\. Bring back"
    with pytest.raises(EvidenceError, match=says):
        decided(chain)
    assert not chain.layout.decision.exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda of: of["steps"][0].update(outcome="hold"), "says hold of step tantivy"),
        (lambda of: of["steps"][0].update(control="dense"), "decided on dense -> tantivy"),
        (lambda of: of["steps"][0].update(step="none"), "says nothing of step tantivy on toy"),
        (lambda of: of.update(dataset="other"), "says nothing of step tantivy on toy"),
        (lambda of: of.pop("provenance"), "is not a decision"),
        (
            lambda of: of["provenance"]["arms"]["tantivy"].update(fingerprint="f" * 64),
            r"step back is judged against tantivy \w{12}, and .* accepted ffffffffffff",
        ),
    ],
)
def test_a_decision_that_did_not_accept_it_is_refused(chain: Toy, change: Any, says: str) -> None:  # noqa: ANN401  a lambda
    changed(chain, change)
    with pytest.raises((EvidenceError, BadFile), match=says):
        decided(chain)


def test_a_decision_that_is_gone_is_named(chain: Toy) -> None:
    (chain.root / "policy" / "kept.json").unlink()
    with pytest.raises(BadFile, match=r"kept\.json: is gone, and step tantivy was taken by it"):
        decided(chain)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('accepted = "kept.json"\n', "", "names half of the decision"),
        ("accepted_sha256 = ", "# ", "names half of the decision"),
        ("taken = true", "taken = false", "was not taken, and names the decision"),
    ],
)
def test_a_policy_names_both_or_none(chain: Toy, old: str, new: str, says: str) -> None:
    path = chain.root / "policy" / "toy.toml"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(BadPolicy, match=rf"toy\.toml:\d+: step tantivy {says}"):
        load_policy(path)
