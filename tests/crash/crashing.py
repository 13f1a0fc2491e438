"""Crash a command at a call, and see what is left of it: the client of ``server``."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from harness.corpus import judgements
from harness.corpus.judgements import JudgingPair, Pool
from harness.migrate import ledger as migrate
from harness.migrate.standing import CurrentDecision
from harness.policy.load import load_policy
from harness.policy.model import Policy
from tests.crash.server import NOW, Attempt
from tests.make.toy import GATES, HEAD, NAME, STEP, Toy

HERE = Path(__file__).parent


class Ended(NamedTuple):
    """What a command came to."""

    code: int
    """Minus the signal where it was killed."""
    out: str
    err: str
    calls: tuple[str, ...]
    """Names and paths of what was counted."""


@dataclass(frozen=True)
class Crashing:
    """A server, and a folder in which each command finds the same project."""

    server: subprocess.Popen[str]
    said: Path
    root: Path
    """Where commands are run."""

    def attempt(self, found: Attempt) -> Ended:
        assert self.server.stdin
        assert self.server.stdout
        self.server.stdin.write(json.dumps(asdict(found)) + "\n")
        self.server.stdin.flush()
        code = int(self.server.stdout.readline())
        out, err, log = (
            self.said.with_name(f"{self.said.name}.{end}").read_text()
            for end in ("out", "err", "log")
        )
        return Ended(code, out, err, tuple(log.splitlines()))

    def put_back(self, template: Path) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(template, self.root)


@contextmanager
def serving(folder: Path) -> Iterator[Crashing]:
    """Compile what is preloaded, and start the server; ``folder`` is empty."""
    library, said = folder / "interpose.so", folder / "said"
    compiler = shutil.which("cc") or "cc"
    source = str(HERE / "interpose.c")
    build = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), source, "-ldl"]
    subprocess.run(build, check=True)
    env = {**os.environ, "LD_PRELOAD": str(library), "OPENBLAS_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, HERE / "server.py", said],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Crashing(server, said, folder / "project")
    finally:
        server.communicate(timeout=60)


def everything(root: Path, *, left_out: Sequence[str] = ()) -> dict[str, str]:
    """Digest of each file, but for those below ``left_out`` and what is left over."""
    found = {path.relative_to(root): path for path in sorted(root.rglob("*")) if path.is_file()}
    return {
        name.as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in found.items()
        if not (name.as_posix().startswith(tuple(left_out)) or any(map(_hidden, name.parts)))
    }


def left_over(root: Path) -> list[str]:
    """Name what only a change that is under way may have beside it."""
    found = (path.relative_to(root) for path in root.rglob(".*") if _hidden(path.name))
    return sorted(path.as_posix() for path in found)


def _hidden(name: str) -> bool:
    return name.startswith(".") and name.endswith((".partial", ".lock", ".journal"))


def synced(calls: Sequence[str], path: Path) -> bool:
    """Tell whether the last replacement of ``path`` is on the disk, by the order of calls.

    A file, or the last file of a folder, is waited for after it was written and before it gets its
    name, and the folder around it after that.
    """
    renamed = max(at for at, call in enumerate(calls) if call == f"rename {path}")
    waited = [at for at, call in enumerate(calls) if call.startswith("fsync ")]
    own = [at for at in waited if calls[at].endswith(f"/{path.name}") and at < renamed]
    wrote = [at for at, call in enumerate(calls) if call.startswith("write ")]
    late = [at for at in wrote if own and own[-1] < at < renamed and calls[at].endswith(path.name)]
    folder = [at for at in waited if calls[at] == f"fsync {path.parent}" and at > renamed]
    return bool(own and folder and not late)


SWITCHED = STEP + 'switch = "tantivy"\n'
HYBRID = SWITCHED.replace('"tantivy"', '"hybrid"').replace('"fts5"', '"tantivy"')
STEPS = HEAD + SWITCHED + GATES + HYBRID + GATES
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
    text = {"query": "", "title": "", "snippet": "", "narrows": 0.1, "scale": (0, 1)}
    pairs = ({"query_id": "q99", "doc_id": f"d{at:02}", **text} for at in range(1, 5))
    pool = Pool(tuple(map(JudgingPair.model_validate, pairs)), (1, 0, 1, None))
    judgements.begin(project.root / "pool.qrels", pool)


def changed(project: Toy) -> None:
    """Judge one more pair by hand, here and where the data set is from."""
    for path, line in (
        (project.root / "qrels" / NAME / "test.qrels", "q99 0 d05 1\n"),
        (project.root / "beir" / "qrels" / "test.tsv", "q99\td05\t1\n"),
    ):
        path.write_text(path.read_text() + line)


def begun(project: Toy) -> None:
    """Begin a migration of two steps."""
    project.policy(STEPS)
    migrate.begin(project.root / "migration", _policy(project), "fts5", now=NOW, by="me")


def under_way(project: Toy) -> None:
    """Take both steps against the rules."""
    begun(project)
    policy, nothing = _policy(project), CurrentDecision(None, "", "")
    for _ in policy.steps:
        folder = project.root / "migration"
        migrate.advance(folder, policy, nothing, now=NOW, by="me", reason="a test")


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
    "run": Command(
        ("run", "--dataset", NAME, "--arms", "fts5", "--out", "out"), as_is, told="The page",
        left_out=TIMED,
    ),
}  # fmt: skip
QUICK = ("import --force", "merge", "advance", "rollback")
"""Commands that the suite crashes."""
