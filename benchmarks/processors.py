"""What other processors make of the same texts, and what recorded vectors change about it.

    python3 run.py python benchmarks/processors.py --documents 200 --queries 400

Features of this processor are hidden from a process (Linux, x86-64, a C compiler; the kernel must
let CPUID fault), so that numpy, onnxruntime and the scan choose the code of an older one. Each
process indexes documents of the embedded data by ``dense`` and runs queries, without the record and
with it. ``--site FOLDER`` adds a process that finds another onnxruntime there (``pip install
--target``), for which the record has nothing.
"""

# ruff: noqa: T201  a benchmark prints

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.core.engine import KeepsVectors
from harness.core.records import Document
from harness.corpus.prepared import Prepared
from harness_engines import registry as arms

HERE = Path(__file__).resolve().parent
DATA = Path("build/python-docs/data")
FLAGS = Path("/proc/cpuinfo")
HIDDEN = {"as it is": "", "without AVX-512": "avx512", "without AVX2": "avx2"}
FIRST = 10
DEPTH = 100


@dataclass(frozen=True)
class Made:
    """What one process made: the vectors of documents, and the hits of each query."""

    vectors: bytes
    hits: Mapping[str, Mapping[str, float]]
    """By query: documents with their scores, best first."""


def may_hide() -> bool:
    """Tell whether CPUID can be made to fault here, and there is something to hide."""
    flags = FLAGS.read_text("utf-8").split() if FLAGS.is_file() else []
    return {"cpuid_fault", "avx512f"} <= set(flags) and shutil.which("cc") is not None


def library(folder: Path) -> Path:
    """Compile what hides features.

    Raises:
        OSError: there is no C compiler, or it failed.
    """
    path = folder / "hidden_features.so"
    command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(path), str(HERE / "hidden_features.c")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  ours
    if done.returncode:
        raise OSError(done.stderr)
    return path


def made(
    folder: Path, data: Path, sizes: tuple[int, int], more: list[str], env: Mapping[str, str]
) -> Made:
    """Index and query in a process of its own, with ``more`` words of a command.

    Raises:
        OSError: it ended by an error, whose last lines it gives.
    """
    words = [sys.executable, "-m", "benchmarks.processors", "--work", str(folder)]
    words += ["--data", str(data), "--documents", str(sizes[0]), "--queries", str(sizes[1])]
    words += more
    done = subprocess.run(  # noqa: S603  this file
        words, cwd=HERE.parent, env={**os.environ, **env}, capture_output=True, check=False
    )
    if done.returncode:
        raise OSError(done.stderr.decode(errors="replace")[-1000:])
    hits = json.loads((folder / "hits.json").read_text("utf-8"))
    return Made((folder / "index" / "vectors.amvi").read_bytes(), hits)


def work(given: argparse.Namespace) -> None:
    """Be such a process."""
    folder: Path = given.work
    data = Prepared.open(given.data)
    documents = list(data.documents())[:: max(1, data.manifest.documents // given.documents)]
    queries = list(data.queries())[:: max(1, data.manifest.queries // given.queries)]
    engine = arms.load("dense", folder / "cache").engine
    if given.keep:
        _keep(engine, documents, [query.text for query in queries], given.keep)
    if given.record and isinstance(engine, KeepsVectors):
        texts = [query.text for query in queries]
        agreed = engine.take_vectors(documents, texts, given.record)
        if agreed is None or not agreed.used:
            raise SystemExit(f"the recorded vectors were not used: {agreed}")
    (folder / "index").mkdir()
    engine.build(documents, folder / "index")
    with engine.open(folder / "index") as searcher:
        hits = {
            query.query_id: {h.doc_id: h.score for h in searcher.search(query.text, DEPTH).hits}
            for query in queries
        }
    (folder / "hits.json").write_text(json.dumps(hits), encoding="utf-8")


def _keep(engine: Any, documents: list[Document], queries: list[str], folder: Path) -> None:  # noqa: ANN401  narrowed here
    if isinstance(engine, KeepsVectors):
        engine.keep_vectors(documents, queries, folder)


def compared(first: Made, other: Made) -> str:
    """Say what differs, as cells of a table."""
    same = first.vectors == other.vectors
    pairs = [(first.hits[query], other.hits[query]) for query in first.hits]
    order = sum(list(a)[:FIRST] != list(b)[:FIRST] for a, b in pairs)
    scores = sum(list(a.items()) != list(b.items()) for a, b in pairs)
    shared = (abs(a[doc_id] - b[doc_id]) for a, b in pairs for doc_id in a.keys() & b.keys())
    apart = max(shared, default=0.0)
    return f"{'equal' if same else 'differ'} | {order} | {scores} | {apart:.1e}"


def rows(
    root: Path, data: Path, sizes: tuple[int, int], sites: list[Path]
) -> Iterator[tuple[str, str]]:
    """Yield the name of each process and what is other in it than in the first one."""
    hidden = HIDDEN if may_hide() else {name: way for name, way in HIDDEN.items() if not way}
    preloaded = str(library(root)) if any(hidden.values()) else ""
    ways: dict[str, dict[str, str]] = {
        name: {"LD_PRELOAD": preloaded, "HIDDEN_FEATURES": way} if way else {}
        for name, way in hidden.items()
    }
    ways |= {f"packages of {site}": {"PYTHONPATH": str(site)} for site in sites}
    record = root / "record"
    first: dict[str, Made] = {}
    for name, env in ways.items():
        both: tuple[tuple[str, list[str]], ...] = (
            ("no record", []),
            ("record", ["--record", str(record)]),
        )
        for told, more in both[:1] if "PYTHONPATH" in env else both:
            folder = root / "work"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            keeping = [] if first else ["--keep", str(record)]
            found = made(folder, data, sizes, more + keeping, env)
            first.setdefault("", found)
            yield f"{name}, {told}", compared(first[""], found)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--site", type=Path, action="append", default=[])
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--keep", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given)
        return
    print("| processor, vectors | vectors of documents | other first ten | other scores | most |")
    print("| --- | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as root:
        sizes = given.documents, given.queries
        for name, told in rows(Path(root), given.data.resolve(), sizes, given.site):
            print(f"| {name} | {told} |", flush=True)
    if not may_hide():
        print("Nothing was hidden: that needs AVX-512, a kernel that lets CPUID fault, and cc.")


if __name__ == "__main__":
    main()
