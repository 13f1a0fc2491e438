"""A small project in which what the pages name can be typed, made once for a run of the tests.

It is other than the project in this, and in nothing else:

- ``python-docs`` is harvested from four modules, its documents cut early, and ``agent-mail`` is a
  thousand messages with few questions; both by cards of their own, from the same code.
- Collections that are not part of the project are ``python-docs`` in BEIR layout: whole where they
  are a reader's own, and a part of it with five questions where they are SciFact and the like.
- ``params.yaml``, as everywhere but for fewer draws, a short race and trials of load that take a
  blink.
- The policies draw less, and ask for few queries; that of message search ends before the steps that
  read much with models.
- ``run.py`` starts this environment, and makes none.
"""

import hashlib
import mailbox
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from harness.core.records import Document, Judgement, Query
from harness.corpus import trec
from harness.corpus.prepared import QRELS, Prepared
from harness.corpus.runs import read_run
from harness.pipeline.regress import CACHE, TIMED
from tests.docs.pages import ROOT, Shell
from tests.make import write_beir

NAME = "python-docs"
NAMESPACES = ["numpy.fft", "numpy.linalg", "numpy.polynomial.polynomial", "scipy.fft"]
DOCUMENTS, CHARACTERS, QUESTIONS = 110, 200, 20
MESSAGES, ASKED = 1_000, 20
COLLECTIONS = Path("collections")
MINE = "mine"
OUTSIDE = ("scifact", "cranfield")
FEW = 5
SPLITS = ("test", "dev", "train")
LAST_STEP = {"mail.toml": "tantivy"}
"""Of policies whose later steps read much with models."""
LINKED = (".venv", "benchmarks", "docs")
COPIED = ("policy", "examples")
ARMS = ["fts5", "tantivy", "hybrid", "hash-hybrid"]
PARAMS = {
    "score": {"resamples": 1_000},
    "race": {"processes": 2, "queries": 40, "warmup": 4, "repeated": 2},
    "load": {
        "processes": 1, "seconds": 0.2, "rounds": 1, "warm": 4, "rates": [0.1],
        "max_lag": 50, "max_noise": 50, "resolution": 4, "confidence": 0.6,
    },
}  # fmt: skip
LOOSER = (
    (r"^resamples = \d+", "resamples = 1000"),
    (r"^min_queries = \d+", "min_queries = 2"),
    (r"^max_share = 0\.0\d+", "max_share = 0.5"),
    (r"^min_share = 0\.\d+", "min_share = 0.5"),
    (r"^shadow_days = \d+", "shadow_days = 1"),
)
"""Of policies. Nothing is said here of arms, so a bound need not tell anything."""
LOOSEST = (
    (r"^margin = [\d.]+", "margin = 0.4"),
    (r'^\[\[step\.gate\]\]\n(?:.+\n)+slice = "paraphrase"\n(?:.+\n)+', ""),
    (r"^max_more = [\d.]+", "max_more = 0.9"),
    (r"^([a-z-]+) = 0\.20?( *#.*)?$", r"\1 = 0.4"),
    (
        r'^\[\[step\.gate\]\]\n.+\nrule = "(?:queueing|latency_\w+|no_slice_harmed)".*\n(?:.+\n)+',
        "",
    ),
    (r"^floor = [\d.]+", "floor = 0.3"),
    (r"^max_(ratio|noise|stolen|ms|scale) = [\d.]+", r"max_\1 = 100"),
)
"""Of message search, whose way is walked to its end; what knows nothing must still fail, and words
alone answer no paraphrase here."""
STARTER = f"""\
import os, sys
os.environ["PATH"] = {str(Path(sys.executable).parent)!r} + os.pathsep + os.environ["PATH"]
os.environ["PYTHONPATH"] = {str(ROOT)!r}
os.execvp(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True)
class World:
    """The project, with the whole pipeline run on ``python-docs``; a page gets a copy."""

    root: Path

    def copied(self, to: Path) -> "World":
        """Copy it, links as links."""
        shutil.copytree(self.root, to, symlinks=True)
        return World(to)


def make(root: Path) -> World:
    """Make it, by the commands that a person would type."""
    root.mkdir(parents=True)
    _settings(root)
    _cards(root)
    shell = Shell(root)
    for name in (NAME, "agent-mail"):
        shell.harness("stage", "prepare", "--dataset", name, "--update")
    for arm in _params(root)["arms"]:
        shell.harness("stage", "index", "--dataset", NAME, "--arm", arm)
        shell.harness("stage", "replay", "--dataset", NAME, "--arm", arm)
    for stage in ("score", "compare"):
        shell.harness("stage", stage, "--dataset", NAME)
    shell.harness("race", "--dataset", NAME)
    shell.harness("gate", "--exit-zero")
    shell.harness("report")
    between = ("--control", "fts5", "--candidate", "tantivy")
    shell.harness("shadow", "run", "--dataset", NAME, *between, "--out", "shadow-log")
    _collections(root)
    _recorded(root)
    return World(root)


def _params(root: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = yaml.safe_load((root / "params.yaml").read_text())
    return found


def _settings(root: Path) -> None:
    for name in COPIED:
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in LINKED:
        (root / name).symlink_to(ROOT / name)
    (root / "run.py").write_text(STARTER)
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["arms"] = ARMS
    for section, changed in PARAMS.items():
        params[section] |= changed
    (root / "params.yaml").write_text(yaml.safe_dump(params))
    for path in (root / "policy").glob("*.toml"):
        path.write_text(_changed(path.read_text(), LOOSER))
    for name, last in LAST_STEP.items():
        path = root / "policy" / name
        head, *steps = path.read_text().split("[[step]]\n")
        names = [step.split('"')[1] for step in steps]
        path.write_text("[[step]]\n".join([head, *steps[: names.index(last) + 1]]))
    mail = root / "policy" / "mail.toml"
    mail.write_text(_changed(mail.read_text(), LOOSEST))


def _changed(text: str, changes: Iterable[tuple[str, str]]) -> str:
    for pattern, small in changes:
        text = re.sub(pattern, small, text, flags=re.MULTILINE)
    return text


def _cards(root: Path) -> None:
    """Write the cards of the small sets; ``prepare --update`` counts what they hold."""
    for name in (NAME, "agent-mail"):
        (root / "qrels" / name).mkdir(parents=True)
        text = (ROOT / "datasets" / name / "card.toml").read_text()
        listed = ", ".join(f'"{namespace}"' for namespace in NAMESPACES)
        changes = (
            (r"^namespaces = \[[^]]*\]", f"namespaces = [{listed}]"),
            (r"^documents = \d+\nnatural_language", f"documents = {DOCUMENTS}\nnatural_language"),
            (r"^characters = \d+", f"characters = {CHARACTERS}"),
            (r"^(natural_language|identifiers) = \d+", rf"\g<1> = {QUESTIONS}"),
            (r"^messages = \d+", f"messages = {MESSAGES}"),
            (r"(^seed = \d+\nqueries) = \d+", rf"\g<1> = {ASKED}"),
        )
        folder = root / "datasets" / name
        shutil.copytree(ROOT / "datasets" / name, folder)
        (folder / "card.toml").write_text(_changed(text, changes))


def _collections(root: Path) -> None:
    """Write ``python-docs`` as others have their data: BEIR, TREC, mail, a run of Lucene's."""
    build = root / "build" / NAME
    prepared = Prepared.open(build / "data")
    documents, queries = tuple(prepared.documents()), prepared.queries()
    judged = tuple(prepared.qrels().rows())
    mine = root / COLLECTIONS / MINE
    _beir(mine, documents, queries, judged)
    shutil.copy(build / "data" / QRELS, mine / QRELS)
    topics = (f"{found.query_id}\t{found.text}\n" for found in queries)
    (mine / "topics.tsv").write_text("".join(topics))
    box = mailbox.mbox(mine / "mbox")
    for found in documents:
        box.add(f"Message-ID: <{found.doc_id}>\nSubject: {found.title}\n\nAs told.\n".encode())
    box.close()
    for name in ("work.mbox", "lists.mbox"):
        shutil.copy(mine / "mbox", root / name)
    few = queries[:: len(queries) // FEW]
    asked = {found.query_id for found in few}
    theirs = [one for one in judged if one.query_id in asked]
    wanted = {one.doc_id for one in theirs} | {one.doc_id for one in documents[::5]}
    part = [found for found in documents if found.doc_id in wanted]
    _beir(root / COLLECTIONS / OUTSIDE[0], part, few, theirs)
    for name in OUTSIDE[1:]:
        (root / COLLECTIONS / name).symlink_to(OUTSIDE[0])
    for name, arm in (("lucene", "tantivy"), ("bm25", "fts5")):
        trec.write_run(root / f"{name}.trec", read_run(build / "runs" / f"{arm}.parquet"))


def _beir(
    folder: Path,
    documents: Iterable[Document],
    queries: Iterable[Query],
    judged: Iterable[Judgement],
) -> None:
    found = ({"_id": one.doc_id, "title": one.title, "text": one.text} for one in documents)
    asked = ({"_id": one.query_id, "text": one.text, "slices": one.slices} for one in queries)
    write_beir(folder, found, asked, judged, SPLITS)


def _recorded(root: Path) -> None:
    """Record what the pipeline left as DVC does, and commit it twice: a release and the next."""

    def cached(data: bytes, mark: str = "") -> str:
        md5 = hashlib.md5(data, usedforsecurity=False).hexdigest() + mark
        to = root / CACHE / md5[:2] / md5[2:]
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)
        return md5

    files = [path for path in (root / "build" / NAME).rglob("*") if path.is_file()]
    outs = [
        {"path": path.relative_to(root).as_posix(), "md5": cached(path.read_bytes())}
        for path in sorted(files)
        if path.name not in TIMED
    ]
    stage = {"deps": [], "outs": outs}
    (root / "dvc.lock").write_text(yaml.safe_dump({"stages": {f"all@{NAME}": stage}}))
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (
        ("init", "-q"),
        ("add", "dvc.lock"),
        ("commit", "-q", "-m", "a release"),
        ("commit", "-q", "--allow-empty", "-m", "the next"),
    ):
        subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True)
