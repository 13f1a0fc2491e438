"""What a killed node of Typesense does to a replay: complete and the same, or INVALID and why.

    python3 run.py python benchmarks/node_failures.py --times 20 --kill leader

Each time three nodes are started and loaded with generated documents. The stage ``replay``
runs all queries twice, and at a drawn moment of that a node is killed (SIGKILL). A replay counts as
the same where both of its runs show the same hits, with the same scores, as one that nothing
disturbed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread
from time import monotonic, sleep
from typing import NamedTuple

import httpx

from benchmarks import typesense_nodes
from benchmarks.typesense_nodes import Cluster
from harness.cli.project import Project
from harness.core.errors import InvalidArm
from harness.core.run import Run
from harness.corpus.runs import read_run
from harness.pipeline.imports import About, ImportTarget, import_beir
from harness.pipeline.index import index
from harness.pipeline.layout import Layout
from harness.pipeline.prepare import prepare
from harness.pipeline.replay import replay

KEY = "NODE_FAILURES_KEY"
NAME = "generated"
DOCUMENTS, QUERIES = 1_000, 500
LEADS = 1
"""State of the node that leads."""
ARM = """summary = "Three nodes, of which one is killed"
stack = "typesense"
[settings]
nodes = {nodes}
key_env = "{key}"
num_typos = 0
prefix = false
drop_tokens_threshold = 100
timeout_s = 20.0
"""


class Replayed(NamedTuple):
    """Both runs of a replay."""

    first: Run
    again: Run

    def same(self, other: Replayed) -> bool:
        """Compare outcomes, hits and scores; the fingerprint has the ports of a cluster."""
        return all(_shown(one) == _shown(two) for one, two in zip(self, other, strict=True))


def _shown(run: Run) -> list[object]:
    return [(row.query_id, row.status, row.hits) for row in run.rows()]


@dataclass(frozen=True, slots=True)
class Bench:
    """A data set that is prepared."""

    folder: Path
    data: Path

    @contextmanager
    def nodes(self) -> Iterator[tuple[Cluster, str]]:
        """Start a cluster, and yield it with the arm's file for it."""
        with typesense_nodes.started(3) as there:
            os.environ[KEY] = there.key
            arm = self.folder / "killed.toml"
            arm.write_text(ARM.format(nodes=list(there.addresses), key=KEY), encoding="utf-8")
            yield there, str(arm)

    def replayed(self, arm: str) -> Replayed:
        """Replay all queries twice."""
        replay(self.layout, arm, self.cache, Project.here().params.replay)
        return Replayed(read_run(self.layout.run("killed")), read_run(self.layout.again("killed")))

    @property
    def cache(self) -> Path:
        """Give the folder of what an arm keeps."""
        return self.folder / "cache"

    @property
    def layout(self) -> Layout:
        """Give the folders of the stages."""
        return Layout(self.data, self.folder / "perf", self.cache)


def killed(bench: Bench, which: str, after_s: float, whole: Replayed) -> str:
    """Replay with a node killed so long after the index was built; give the outcome in words."""
    with bench.nodes() as (there, arm):
        index(bench.layout, arm, bench.cache)
        done = Thread(target=_kill, args=(there, which, after_s), daemon=True)
        done.start()
        try:
            now = bench.replayed(arm)
        except InvalidArm as exc:
            done.join()
            return f"INVALID: {_reason(str(exc))}"
        done.join()
    struck = now.first.retries + now.again.retries
    sameness = "the same" if now.same(whole) else "NOT THE SAME"
    return f"complete, {sameness}, {'a query was repeated' if struck else 'no query was struck'}"


def _collection(bench: Bench) -> None:
    """Generate documents and queries of drawn words, and prepare them."""
    drawn, beir = Random(1), bench.folder / "beir"
    words = [f"word{at}" for at in range(200)]
    rows = [{"_id": f"d{at}", "text": _text(drawn, words, 40)} for at in range(DOCUMENTS)]
    asked = [{"_id": f"q{at}", "text": _text(drawn, words, 3)} for at in range(QUERIES)]
    (beir / "qrels").mkdir(parents=True)
    for name, of in (("corpus", rows), ("queries", asked)):
        (beir / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in of), "utf-8")
    judged = "".join(f"{one['_id']}\td0\t1\n" for one in asked)
    (beir / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}", "utf-8")
    about = About("Generated words", "benchmarks/node_failures.py", "CC0-1.0")
    to = bench.folder / "datasets", bench.folder / "qrels"
    import_beir(beir, ImportTarget(NAME, *to, split="test", about=about))
    prepare(to[0] / NAME, to[1] / NAME, bench.layout.data)


def _text(drawn: Random, words: Sequence[str], count: int) -> str:
    return " ".join(drawn.choices(words, k=count))


def _kill(there: Cluster, which: str, after_s: float) -> None:
    sleep(after_s)
    nodes = zip(there.pids, there.addresses, strict=True)
    states = {pid: _state(url, there.key) for pid, url in nodes}
    wanted = [pid for pid, state in states.items() if (state == LEADS) == (which == "leader")]
    if wanted:
        os.kill(wanted[0], signal.SIGKILL)


def _state(url: str, key: str) -> int:
    try:
        headers = {"X-TYPESENSE-API-KEY": key}
        got = httpx.get(f"{url}/debug", headers=headers, trust_env=False, timeout=5.0)
        return int(got.json()["state"])
    except (httpx.HTTPError, ValueError, KeyError):
        return -1


def _reason(said: str) -> str:
    """Leave out ports and the words of a log, so that equal reasons are counted together."""
    for word in said.split():
        if "127.0.0.1:" in word:
            said = said.replace(word, "NODE")
    return said[:90]


def main(times: int, which: str, *, seed: int) -> int:
    """Print each outcome and their counts; give how many were neither."""
    drawn, found = Random(seed), Counter[str]()
    with TemporaryDirectory() as name:
        bench = Bench(Path(name), Path(name) / "build" / NAME)
        _collection(bench)
        with bench.nodes() as (_, arm):
            index(bench.layout, arm, bench.cache)
            began = monotonic()
            whole = bench.replayed(arm)
            took_s = monotonic() - began
        sys.stdout.write(f"undisturbed: {len(whole.first)} queries twice\n")
        for at in range(1, times + 1):
            outcome = killed(bench, which, drawn.uniform(0, took_s), whole)
            found[outcome] += 1
            sys.stdout.write(f"{at}: {outcome}\n")
            sys.stdout.flush()
    for outcome, count in found.most_common():
        sys.stdout.write(f"{count} of {times}: {outcome}\n")
    return sum(n for one, n in found.items() if "NOT THE SAME" in one)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--kill", choices=["leader", "follower"], default="leader")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sys.exit(main(given.times, given.kill, seed=given.seed))
