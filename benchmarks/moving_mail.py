"""Whether a served mailbox ever answers wrongly while its messages change.

    python3 run.py python benchmarks/moving_mail.py --minutes 10

A server of message search is started over a small mailbox, with operators that may write and one
viewer. A writer inserts, edits and deletes by the server's tools. After each change it looks for
the message under its old and its new word. Meanwhile readers call every tool that searches, by
pages, as operator and as viewer. What lived unchanged through all pages of a list must be in it
once; nothing deleted before it, nothing twice, and for the viewer nothing of another project. All
speak MCP over HTTP through the SDK's client. Exits 1 where an answer was wrong, or a tool that the
server offers was never called.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import Queue
from random import Random
from subprocess import PIPE, Popen
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from time import monotonic
from typing import Any

from harness.pipeline.imports import ImportTarget
from harness_engines.mcp_server import digest
from harness_engines.stacks.remote import McpConnection, connected
from harness_engines.vector.embedder import HashEmbedder

TOKEN, VIEWER = "a-token-of-the-operator", "a-token-of-the-viewer"
OWN = 1
"""The project whose messages the viewer reads."""
SHARED = "review"
"""A word of every message."""
ARM = """summary = "Mail that moves"
stack = "mail"
[settings]
mode = "lexical"
search_engine = ""
subject_weight = 2
identifiers_weight = 4
embedder = "hash"
max_tokens = 64
"""
CHANGES = ("insert", "edit", "delete")
FEWEST, MOST = 20, 60
"""Messages, between which inserting and deleting keep the mailbox."""


@dataclass
class Mailbox:
    """What is known of the messages: those that are there, and when each changed last."""

    lock: Lock = field(default_factory=Lock)
    clock: Iterator[int] = field(default_factory=count)
    project_of: dict[int, int] = field(default_factory=dict)
    words: dict[int, str] = field(default_factory=dict)
    changed: dict[int, int] = field(default_factory=dict)
    """A moment at which the last change of a message was begun or ended."""
    deleted: dict[int, int] = field(default_factory=dict)

    def now(self) -> int:
        return next(self.clock)


@dataclass
class Tally:
    """What was asked and found."""

    calls: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    offered: set[str] = field(default_factory=set)
    """Tools of the server, as it lists them."""

    def check(self, right: bool, said: str) -> None:  # noqa: FBT001  what is checked
        if not right:
            self.wrong.append(said)

    def learn(self, to: McpConnection) -> None:
        """Ask a server for its tools."""
        self.offered |= {one.name for one in to.portal.call(to.client.list_tools).tools}

    def told(self) -> int:
        """Print calls and what was wrong; give the exit code."""
        for tool, calls in sorted(self.calls.items()):
            sys.stdout.write(f"{tool:>25}: {calls:,} calls\n")
        missed = sorted(self.offered - {*self.calls})
        if missed:
            sys.stdout.write(f"never called: {', '.join(missed)}\n")
        sys.stdout.write(f"{len(self.wrong):,} wrong answers\n")
        for one in self.wrong[:20]:
            sys.stdout.write(f"  {one}\n")
        return 1 if self.wrong or missed else 0


@dataclass(frozen=True)
class Asker:
    """Calls tools and counts them; an answer that says it is degraded is wrong here."""

    to: McpConnection
    tally: Tally

    def call(self, tool: str, **given: object) -> Mapping[str, Any]:
        self.tally.calls[tool] += 1
        answer = self.to.call(tool, given)
        diagnostics = answer.get("diagnostics")
        self.tally.check(diagnostics is None, f"{tool} {given}: {diagnostics}")
        return answer

    def ids(self, word: str, **given: object) -> list[int]:
        asked = {"project_key": "*", "query": word, **given}
        return [row["id"] for row in self.call("search_messages", **asked)["result"]]


def markers() -> Iterator[str]:
    """Return words without end, but none whose hash takes away that of the word that all share.

    A message with both lies at a right angle to that word or beyond, and such vectors are no hits.
    """
    embed = HashEmbedder().embed
    shared = embed([SHARED])[0]
    for number in count():
        word = f"marker{number}"
        if float(embed([f"{SHARED} {word}"])[0] @ shared) > 0:
            yield word


def write(ask: Asker, box: Mailbox, rng: Random, until: float) -> None:
    """Change messages one by one, and look after each change whether a search knows of it."""
    for number, word in enumerate(markers()):
        if number >= len(CHANGES) and monotonic() > until:
            return
        how = rng.choice(CHANGES)
        how = CHANGES[number] if number < len(CHANGES) else how
        few, many = len(box.words) < FEWEST, len(box.words) > MOST
        mode = rng.choice(("lexical", "hybrid"))
        if (few and number >= len(CHANGES)) or (how == "insert" and not many):
            project = rng.choice((1, 2))
            given = {"project_key": f"project-{project}", "sender": "Ann", "body": "again " * 3}
            begun = box.now()
            new = ask.call("insert_message", subject=f"{SHARED} {word}", **given)["id"]
            with box.lock:
                box.project_of[new], box.words[new] = project, word
                box.changed[new] = max(begun, box.now())
            ask.tally.check(ask.ids(word, limit=1, mode=mode) == [new], f"insert of {new}")
            continue
        one = rng.choice([*box.words])
        old = box.words[one]
        with box.lock:
            box.changed[one] = box.now()
        if how == "edit":
            ask.call("edit_message", id=one, subject=f"{SHARED} {word} {word}")
            with box.lock:
                box.words[one], box.changed[one] = word, box.now()
            ask.tally.check(ask.ids(word, limit=1, mode=mode) == [one], f"edit of {one}")
        else:
            ask.call("delete_message", id=one)
            with box.lock:
                del box.words[one]
                box.deleted[one] = box.changed[one] = box.now()
        ask.tally.check(ask.ids(old, mode="lexical") == [], f"{one} is found under {old}")


def read(ask: Asker, box: Mailbox, rng: Random, until: float, *, viewer: bool) -> None:
    """Read lists to their ends, and complete subjects; each reader at least once."""
    for number in count():
        if number and monotonic() > until:
            return
        mode = rng.choice(("lexical", "semantic", "hybrid"))
        product = rng.random() < 1 / 3 if number else not viewer
        limit = rng.randint(3, 17)
        with box.lock:
            begun, before = box.now(), dict(box.changed)
            there = {one for one in box.words if not viewer or box.project_of[one] == OWN}
        seen, cursor = list[int](), ""
        while True:
            tool = "search_messages_product" if product else "search_messages"
            where = {"product_key": "product-5"} if product else {"project_key": "*"}
            asked = {"query": SHARED, "limit": limit, "mode": mode, "cursor": cursor, **where}
            answer = ask.call(tool, **asked)
            seen += [row["id"] for row in answer["result"]]
            cursor = str(answer.get("next_cursor") or "")
            if not cursor:
                break
        with box.lock:
            lived = {one for one in there if box.changed.get(one) == before.get(one)}
            dead = {one for one, at in box.deleted.items() if at < begun}
            foreign = {one for one, at in box.project_of.items() if at != OWN}
        said = f"{tool} {mode} by {limit}{' as viewer' if viewer else ''}"
        ask.tally.check(len(seen) == len(set(seen)), f"{said}: twice {seen}")
        ask.tally.check(lived <= set(seen), f"{said}: lost {sorted(lived - set(seen))}")
        ask.tally.check(not dead & set(seen), f"{said}: deleted {sorted(dead & set(seen))}")
        if viewer:
            ask.tally.check(not foreign & set(seen), f"{said}: hidden {foreign & set(seen)}")
        found = ask.call("complete_subject", project_key="*", prefix=SHARED[:4], limit=50)
        ids = {row["id"] for row in found["subjects"]}
        ask.tally.check(not (viewer and foreign & ids), f"complete_subject: hidden {foreign & ids}")
        ask.tally.check(not dead & ids, f"complete_subject: deleted {dead & ids}")


def project(root: Path) -> None:
    """Write a project with a mailbox, an arm, a viewer and a token."""
    from harness.core.files import write_text
    from harness.pipeline.imports import import_beir

    rows = []
    for at in range(FEWEST):
        about = {"project_id": at % 2 + 1, "product_id": 5, "sender": "Ann", "recipients": "Bob"}
        text = {"_id": f"m{at:02}", "title": f"{SHARED} marker-{at}", "text": "again"}
        rows.append(json.dumps({**text, "metadata": about}) + "\n")
    folder = root / "beir"
    write_text(folder / "corpus.jsonl", "".join(rows))
    write_text(folder / "queries.jsonl", f'{{"_id": "q", "text": "{SHARED}"}}\n')
    write_text(folder / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore\nq\tm00\t1\n")
    write_text(root / "params.yaml", "datasets: [moving]\n")
    import_beir(folder, ImportTarget("moving", root / "datasets", root / "qrels", split="test"))
    write_text(root / "moving.toml", ARM)
    write_text(root / "token", TOKEN + "\n")
    write_text(
        root / "viewers.toml",
        f'[viewers.one]\nagent = "Zoe"\nprojects = ["project-{OWN}"]\n'
        f'token_sha256 = "{digest(VIEWER)}"\n',
    )


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """Start the server, give its address, and stop it."""
    options = "--dataset moving --arm moving.toml --http 0 --writable"
    files = "--viewers viewers.toml --token-file token --budget-ms 60000"
    words = [sys.executable, "-m", "harness", "mail-server", *options.split(), *files.split()]
    with Popen(words, cwd=root, stderr=PIPE, text=True) as process:  # noqa: S603  our own words
        lines: Queue[str] = Queue()

        def pass_on() -> None:
            for line in process.stderr or ():
                lines.put(line)

        Thread(target=pass_on, daemon=True).start()
        try:
            said = [lines.get(timeout=120)]
            while "http://" not in said[-1]:
                said.append(lines.get(timeout=120))
            yield said[-1].split()[-1]
        finally:
            process.kill()


def moved(minutes: float, seed: int) -> Tally:
    """Serve, write and read for so long."""
    tally, box = Tally(), Mailbox()
    with TemporaryDirectory() as folder:
        project(Path(folder))
        for at in range(FEWEST):
            box.project_of[at + 1], box.words[at + 1] = at % 2 + 1, f"marker-{at}"
        with serving(Path(folder)) as url:
            until = monotonic() + 60 * minutes

            def speak(job: str) -> None:
                token = VIEWER if job == "viewer" else TOKEN
                with connected([], f"{url}?token={token}", 120) as to:
                    ask, own = Asker(to, tally), Random(f"{seed} {job}")
                    tally.learn(to)
                    if job == "writer":
                        write(ask, box, own, until)
                    else:
                        read(ask, box, own, until, viewer=job == "viewer")

            with ThreadPoolExecutor() as pool:
                for done in [pool.submit(speak, job) for job in ("writer", "viewer", "operator")]:
                    done.result()
    return tally


def main() -> int:
    """Run for some minutes and say what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    return moved(given.minutes, given.seed).told()


if __name__ == "__main__":
    sys.exit(main())
