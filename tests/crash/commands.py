"""Commands that change what cannot be made again, and the projects in which they are typed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.corpus import judgements
from harness.corpus.judgements import JudgingPair, Pool
from harness.migrate import moves as migrate
from harness.migrate.standing import CurrentDecision
from harness.policy.load import load_policy
from harness.policy.model import Policy
from tests.crash.server import NOW
from tests.make.toy import GATES, HEAD, NAME, STEP, Toy

HYBRID = """
[[step]]
name = "hybrid"
control = "tantivy"
candidate = "hash-hybrid"
taken = false
switch = "hybrid"
"""
SWITCHED = STEP + 'switch = "tantivy"\n'
STEPS = HEAD + SWITCHED + GATES + HYBRID + GATES
ACCEPT = ("shadow", "accept", "--until", "2099-01-31", "--reason", "why", "--by")
MERGE = ("judge", "pool.qrels", "--merge", NAME, "--by", "me")
UPDATE = ("stage", "prepare", "--dataset", NAME, "--update")
REPLACE = ("import", "beir", "beir", "--name", NAME, "--force")
OVERRIDE = ("migrate", "advance", "--override", "--reason", "the disk is full")


@dataclass(frozen=True)
class Command:
    """What is typed, where it is typed, and what it leaves that is the same each time."""

    words: tuple[str, ...]
    before: Callable[[Toy], object]
    """Brings the project into the state in which it is typed."""
    durable: tuple[str, ...] = ()
    """Files that are on the disk when it ends."""
    told: str | None = None
    """What it prints once it is done: who was told does not type it again. None where the command
    may be typed again at any time, and changes nothing then."""
    known: str = ""
    """What it says where it was done already; empty where it says the same as before."""
    typed: str = ""
    left_out: tuple[str, ...] = ()
    """Folders that hold the hour, or what may be made again."""


def as_is(project: Toy) -> None:
    """Change nothing."""


def pooled(project: Toy) -> None:
    """Write a pool of pairs that the data set does not judge."""
    judgements.begin(project.root / "pool.qrels", Pool(_pairs(1), (1, 0, 1, None)))


def unjudged(project: Toy) -> None:
    """Write a pool that nobody has looked at."""
    judgements.begin(project.root / "pool.qrels", Pool(_pairs(1), (None,) * 4))


def _pairs(first: int) -> tuple[JudgingPair, ...]:
    text = {"query": "", "title": "", "snippet": "", "narrows": 0.1, "scale": (0, 1)}
    pairs = ({"query_id": "q99", "doc_id": f"d{at:02}", **text} for at in range(first, first + 4))
    return tuple(map(JudgingPair.model_validate, pairs))


def changed(project: Toy) -> None:
    """Judge one more pair by hand, here and where the data set is from."""
    pooled(project)
    for path, line in (
        (project.root / "qrels" / NAME / "test.qrels", "q99 0 d05 1\n"),
        (project.root / "beir" / "qrels" / "test.tsv", "q99\td05\t1\n"),
    ):
        path.write_text(path.read_text() + line)


def two_steps(project: Toy) -> None:
    """Write a policy of two steps."""
    project.policy(STEPS)


def begun(project: Toy) -> None:
    """Begin a migration of two steps."""
    two_steps(project)
    _begin(project)


def under_way(project: Toy) -> None:
    """Take both steps against the rules."""
    begun(project)
    policy, folder = _policy(project), _folder(project)
    for _ in policy.steps:
        nothing = CurrentDecision(None, "", "")
        migrate.advance(folder, policy, nothing, now=NOW, by="me", reason="a test")


def _begin(project: Toy) -> None:
    migrate.begin(_folder(project), _policy(project), "fts5", now=NOW, by="me")


def _folder(project: Toy) -> Path:
    return project.root / "migration"


def _policy(project: Toy) -> Policy:
    return load_policy(project.root / "policy" / "toy.toml")


LEDGER, SWITCH = "migration/ledger.json", "migration/switch.env"
CARD, QRELS = "datasets/toy/card.toml", "qrels/toy/test.qrels"
TIMED = ("out/work", "out/index.html", "out/explore.html", "out/report.md", ".cache")
COMMANDS = {
    "import": Command(
        ("import", "beir", "beir", "--name", "new"), as_is,
        ("datasets/new", "qrels/new/test.qrels"), known="exists",
    ),
    "import --force": Command(REPLACE, changed, ("datasets/toy", QRELS), told="imported toy"),
    "prepare --update": Command(UPDATE, changed, (CARD, QRELS), told="prepared"),
    "merge": Command(MERGE, pooled, (CARD, QRELS, "qrels/toy/test.judged.jsonl")),
    "advance": Command(OVERRIDE, begun, (LEDGER, SWITCH), told="in force"),
    "rollback": Command(("migrate", "rollback"), under_way, (LEDGER, SWITCH), told="back to"),
    "accept": Command(
        (*ACCEPT, "Ada", "--class", "tie_order"), as_is, ("policy/accepted.toml",), "is accepted"
    ),
    "run": Command(
        ("run", "--dataset", NAME, "--arms", "fts5", "--out", "out"), as_is, told="The page",
        left_out=TIMED,
    ),
}  # fmt: skip
QUICK = ("import --force", "merge", "advance", "rollback")
"""Commands that the suite crashes."""
