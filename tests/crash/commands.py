"""Commands that change what cannot be made again, and the projects in which they are typed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.corpus import judgements
from harness.corpus.judgements import JudgingPair, Pool
from harness.judge.panel import read, second_look, settle
from harness.migrate import moves as migrate
from harness.migrate.standing import CurrentDecision
from harness.policy.load import load_policy
from harness.policy.model import Policy
from tests.crash.server import NOW
from tests.make.desk import OVERLAP, make_panel
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
MERGE_SECOND = ("judge", "second.qrels", "--merge", NAME, "--by", "you")
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
    decided: bool = False
    """Whether it reads a decision."""


def as_is(project: Toy) -> None:
    """Change nothing."""


def pooled(project: Toy) -> None:
    """Write two pools of pairs that the data set does not judge."""
    for name, first in (("pool.qrels", 1), ("second.qrels", 11)):
        judgements.begin(project.root / name, Pool(_pairs(first), (1, 0, 1, None)))


def unjudged(project: Toy) -> None:
    """Write a pool that nobody has looked at."""
    judgements.begin(project.root / "pool.qrels", Pool(_pairs(1), (None,) * 4))


def by_machine(project: Toy) -> None:
    """Write a pool, the file of a judge, and what it said of another pool of the same texts."""
    unjudged(project)
    (project.root / "judge.toml").write_text(OVERLAP.replace("0.4, 0.8", "0.5"))


def disagreed(project: Toy) -> None:
    """Let two people judge four pairs, one of them differently, and settle that."""
    files, to = make_panel(project.root), project.root / "settled.qrels"
    first = judgements.read_pool(files["a"]).pairs[0]
    judgements.regrade(files["a"], first, 1, 2)
    settle(read([*files.values()]), to, [*files.values()])
    judgements.regrade(second_look(to), first, None, 2)


def _pairs(first: int) -> tuple[JudgingPair, ...]:
    return tuple(
        JudgingPair(
            query_id="q99",
            doc_id=f"d{at:02}",
            query="",
            title="",
            snippet="",
            narrows=0.1,
            scale=(0, 1),
        )
        for at in range(first, first + 4)
    )


def changed(project: Toy) -> None:
    """Judge one more pair by hand, here and where the data set is from."""
    pooled(project)
    for path, line in (
        (project.root / "qrels" / NAME / "test.qrels", "q99 0 d05 1\n"),
        (project.root / "beir" / "qrels" / "test.tsv", "q99\td05\t1\n"),
    ):
        path.write_text(path.read_text() + line)


def unprepared(project: Toy) -> None:
    """Take prepared data away."""
    shutil.rmtree(project.layout.data)


def two_steps(project: Toy) -> None:
    """Write a policy of two steps."""
    project.policy(STEPS)


def begun(project: Toy) -> None:
    """Begin a migration of two steps."""
    two_steps(project)
    _begin(project)


def noting(project: Toy) -> None:
    """Have a decision that was not noted yet."""
    project.policy(HEAD + SWITCHED + GATES)
    project.decide()
    _begin(project)


def under_way(project: Toy) -> None:
    """Take both steps against the rules."""
    begun(project)
    policy, folder = _policy(project), _folder(project)
    for _ in policy.steps:
        nothing = CurrentDecision(None, "", "")
        migrate.advance(folder, policy, nothing, now=NOW, by="me", reason="a test")


def adrift(project: Toy) -> None:
    """Set the switch by hand."""
    under_way(project)
    (_folder(project) / "switch.env").write_text("SEARCH_ENGINE=fts5\n")


def _begin(project: Toy) -> None:
    migrate.begin(_folder(project), _policy(project), "fts5", now=NOW, by="me")


def _folder(project: Toy) -> Path:
    return project.root / "migration"


def _policy(project: Toy) -> Policy:
    return load_policy(project.root / "policy" / "toy.toml")


LEDGER, SWITCH = "migration/ledger.json", "migration/switch.env"
CARD, QRELS, JUDGED = (
    "datasets/toy/card.toml",
    "qrels/toy/test.qrels",
    "qrels/toy/test.judged.jsonl",
)
CACHED = (".cache",)
"""What verification scores is kept there until it is whole, and removed by the next if not."""
TIMED = ("out/work", "out/index.html", "out/explore.html", "out/report.md", ".cache")
COMMANDS = {
    "import": Command(
        ("import", "beir", "beir", "--name", "new"),
        as_is,
        ("datasets/new", "qrels/new/test.qrels"),
        known="exists",
    ),
    "import --force": Command(REPLACE, changed, ("datasets/toy", QRELS), told="imported toy"),
    "prepare": Command(("stage", "prepare", "--dataset", NAME), unprepared, told="prepared"),
    "prepare --update": Command(UPDATE, changed, (CARD, QRELS), told="prepared"),
    "merge": Command(MERGE, pooled, (CARD, QRELS, JUDGED)),
    "a machine": Command(
        ("judge", "pool.qrels", "--machine", "judge.toml", "--out", "labels.jsonl"),
        by_machine,
        ("labels.jsonl",),
    ),
    "panel settle": Command(
        (
            "panel",
            "settle",
            "judged/pool.a.qrels",
            "judged/pool.b.qrels",
            "--out",
            "settled.qrels",
        ),
        disagreed,
        ("settled.qrels",),
        known="already exists",
    ),
    "history": Command(
        ("history", "add", "--dataset", NAME),
        as_is,
        ("history/toy.jsonl",),
        told="toy: added",
        left_out=CACHED,
        decided=True,
    ),
    "begin": Command(
        ("migrate", "begin", "--serving", "fts5"), two_steps, (LEDGER, SWITCH), told="begun"
    ),
    "observe": Command(("migrate", "observe"), noting, (LEDGER,), left_out=CACHED, decided=True),
    "advance": Command(OVERRIDE, begun, (LEDGER, SWITCH), told="in force"),
    "rollback": Command(("migrate", "rollback"), under_way, (LEDGER, SWITCH), told="back to"),
    "mend": Command(("migrate", "mend"), adrift, (SWITCH,), told="SEARCH_ENGINE="),
    "accept": Command(
        (*ACCEPT, "Ada", "--class", "tie_order"), as_is, ("policy/accepted.toml",), "is accepted"
    ),
    "run": Command(
        ("run", "--dataset", NAME, "--arms", "fts5", "--out", "out"),
        as_is,
        told="The page",
        left_out=TIMED,
    ),
}
QUICK = ("import --force", "merge", "advance", "rollback")
"""Commands that the suite crashes."""
PAIRS = {
    "two merges": ("merge", MERGE_SECOND),
    "a step and the way back": ("advance", ("migrate", "rollback")),
    "a merge and an update": ("merge", UPDATE),
    "an update and a merge": ("prepare --update", MERGE_SECOND),
    "two steps": ("advance", OVERRIDE),
    "the way back and a step": ("rollback", OVERRIDE),
    "two who accept": ("accept", (*ACCEPT, "Bea", "--class", "reorder")),
    "one import twice": ("import --force", REPLACE),
}
QUICK_PAIRS = ("two merges", "a step and the way back")
