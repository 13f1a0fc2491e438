"""What is done beside a decision: pin its evidence, plan it, sign it."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.evidence import Evidence
from harness.core.files import scratch
from harness.core.reading import text_of
from harness.corpus.prepared import Inventory, Prepared
from harness.pipeline.compare import read_agreement
from harness.pipeline.evidence import gathered, pairs_of, sides
from harness.pipeline.experiments import race_settings
from harness.pipeline.imports import load_folder
from harness.pipeline.layout import Layout
from harness.pipeline.race import read_race
from harness.pipeline.score import slices
from harness.policy.load import for_candidates
from harness.policy.model import Policy
from harness.policy.pins import Pin
from harness.policy.pins import pin as pin_beside
from harness.policy.plan import AtHand, Raced


class BeirFolder(NamedTuple):
    """A folder in BEIR layout, as ``harness run`` takes it."""

    path: Path
    split: str
    forms: bool


@contextmanager
def _opened(of: Layout | BeirFolder) -> Iterator[tuple[str, Prepared]]:
    """Open a data set, or a folder before anything was run on it, with its name."""
    if isinstance(of, Layout):
        yield of.root.name, Prepared.open(of.data)
        return
    with scratch() as place:
        load_folder(of.path, of.split, place / "data", forms=of.forms)
        yield of.path.resolve().name, Prepared.open(place / "data")


def pin(of: Layout | BeirFolder, policy_file: Path, *, at: datetime, by: str) -> Pin:
    """Pin queries, judgements and race settings; a folder has no race yet."""
    race = race_settings(of) if isinstance(of, Layout) else {}
    with _opened(of) as (name, data):
        inventory = Inventory.of(data.queries(), data.qrels())
    return pin_beside(policy_file, name, inventory, race, at=at, by=by)


NAMESPACE = "search-harness-decision"
"""A signature made for something else does not count."""


def sign(layout: Layout, key: Path) -> Path:
    """Sign the receipt of the decision with the private ``key``; return the signature."""
    receipt = _receipt(layout)
    layout.signature.unlink(missing_ok=True)
    made = _ssh_keygen("-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(receipt))
    if made.returncode:
        hint = "Name a private key of OpenSSH, or a public one whose private one an agent holds"
        raise BadFile(key, f"did not sign ({made.stderr.strip()})", hint)
    return layout.signature


def signed_by(layout: Layout, allowed: Path) -> str:
    """Return who signed the decision in ``layout``, of those in the file ``allowed``."""
    receipt = _receipt(layout)
    if not layout.signature.is_file():
        raise EvidenceError(
            f"{layout.signature}: the decision is unsigned. Run: harness sign --key FILE"
        )
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
            " signed. Look at what changed, and sign again: harness sign --key FILE"
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


class Ground(NamedTuple):
    """What a policy is planned on."""

    dataset: str
    at_hand: AtHand
    inventory: Inventory
    pilots: Mapping[str, Evidence]


def ground(of: Layout | BeirFolder, policy: Policy, race: Raced | None) -> Ground:
    """Read a query set, and of a data set its race and the runs of steps that were compared."""
    pilots: Mapping[str, Evidence] = {}
    if isinstance(of, Layout):
        race, pilots = raced(of) or race, _pilots(of, policy)
    with _opened(of) as (name, data):
        queries, qrels, clusters = data.queries(), data.qrels(), data.clusters(policy.clusters)
        ids = (query.query_id for query in queries)
        at_hand = AtHand.of(ids, qrels, slices(queries), clusters, race)
        return Ground(name, at_hand, Inventory.of(queries, qrels), pilots)


def raced(layout: Layout) -> Raced | None:
    """Return the size of the race in ``layout``; None where none was run."""
    race = read_race(layout)
    if race is None:
        return None
    return Raced(min(len(times) for times in race.elapsed_ns.values()), len(race.query_ids))


def for_control(layout: Layout, policy: Policy, control: str) -> Policy:
    """Plan the one step of a policy for every arm that was compared with ``control``."""
    others = [two for one, two in read_agreement(layout) if one == control != two]
    return for_candidates(policy, control, others)


def _pilots(layout: Layout, policy: Policy) -> dict[str, Evidence]:
    """Return evidence of the steps whose arms were scored and compared."""
    if not (layout.score_receipt.is_file() and layout.compare_receipt.is_file()):
        return {}
    compared = read_agreement(layout)
    pairs = {step: pair for step, pair in pairs_of(policy).items() if pair in compared}
    arms = sides(layout, [arm for (arm,) in layout.read(Layout.per_query)])
    return gathered(layout, pairs, arms, None, policy.clusters)
