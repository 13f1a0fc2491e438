"""Whether one ranking of all modes finds what turns by mode push down: a Markdown table.

    python3 run.py python benchmarks/mixed_modes.py --folder . --queries 400

Each query is the first sentence of a docstring in a folder, and the function that bears it is the
one relevant unit. The folder has code, prose and records. The ways differ in one setting: turns is
reciprocal rank over modes, scores is one ranking, and code looks at code alone, which is the best
that any mixture can do. Such queries are words of the unit itself, so the table compares ways of
mixing and says nothing about queries that people type. --arm code-tuned adds vectors.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from engines import registry
from engines.stacks.code.arm import Code, searcher
from engines.stacks.code.reading.packages import of_file
from engines.stacks.code.reading.understand import understand
from engines.stacks.code.unit import Mode
from harness.api.comparing import compare
from harness.core.records import Document
from harness.stats.inference import Inference

Ranking = dict[str, dict[str, float]]
SEED = 1
K = 10
WAYS: Mapping[str, Mapping[str, str]] = {
    "turns": {"mode": "mixed", "mixed": "rrf"},
    "scores": {"mode": "mixed", "mixed": "scores"},
    "code": {"mode": "code"},
}
LEFT_OUT = frozenset({"tests", "node_modules", "__pycache__"})
"""Folders whose docstrings and texts would be queries about tests."""
_SENTENCE = re.compile(r"[^.\n]{25,120}")


def documents(root: Path) -> Iterator[Document]:
    """Read the folder as ``harness code`` does, without hidden folders."""
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if LEFT_OUT & {*parts} or any(part.startswith(".") for part in parts):
            continue
        if path.suffix in {".py", ".md", ".toml", ".json"} and path.is_file():
            shown = path.relative_to(root).as_posix()
            module = shown.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            yield from of_file(shown, module, path.read_bytes())


def questions(of: list[Document], most: int) -> dict[str, str]:
    """Give queries by the document that each is about; a sentence of two documents is left out."""
    said: dict[str, list[str]] = {}
    for document in of:
        unit = understand(document)
        found = _SENTENCE.match(unit.texts.doc) if unit.mode is Mode.CODE else None
        if found and unit.facts.type in {"function", "method"}:
            said.setdefault(found[0], []).append(document.doc_id)
    alone = sorted((ids[0], text) for text, ids in said.items() if len(ids) == 1)
    return dict(random.Random(SEED).sample(alone, min(most, len(alone))))


def answers(arm: Code, of: list[Document], asked: Mapping[str, str]) -> Ranking:
    """Build an index and query it; give scores by query and document."""
    with TemporaryDirectory() as folder:
        index = Path(folder, "index")
        index.mkdir()
        arm.build(of, index)
        with arm.open(index) as opened:
            code = searcher(opened)
            return {
                query: {
                    hit.unit.doc_id: 1 / rank
                    for rank, hit in enumerate(code.search(text, K).hits, start=1)
                }
                for query, text in asked.items()
            }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Mixed mode by turns and by scores.")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--arm", default="code-words")
    given = parser.parse_args()
    of = list(documents(given.folder))
    asked = questions(of, given.queries)
    qrels = {doc_id: {doc_id: 1} for doc_id in asked}
    sure = Inference(confidence=0.95, resamples=10_000, seed=SEED)
    runs: dict[str, Ranking] = {}
    for name, changed in WAYS.items():
        arm = registry.load(given.arm, Path(".cache")).engine
        if not isinstance(arm, Code):
            raise SystemExit(f"{given.arm} is not an arm of the stack code")
        settings = arm.settings.model_copy(update=dict(changed))
        runs[name] = answers(Code(settings, arm.cache), of, asked)
    units = [understand(document).mode.value for document in of]
    counts = ", ".join(f"{units.count(mode):,} {mode}" for mode in sorted(set(units)))
    print(f"{len(asked)} queries; units: {counts}; {given.arm}.\n")  # noqa: T201  the output
    head = "| way | RR@10 | less turns | 95 % interval | better / worse |"
    print(head, "|---|---:|---:|---|---|", sep="\n")  # noqa: T201  as above
    for name, run in runs.items():
        found = compare(runs["turns"], run, qrels, "RR@10", sure=sure, queries=list(asked))
        at, moved = found.estimate, (len(found.better), len(found.worse))
        mean = float(found.paired.candidate.mean())
        apart = f"{at.value:+.3f} | {at.low:+.3f} to {at.high:+.3f} | {moved[0]} / {moved[1]}"
        print(f"| {name} | {mean:.3f} | {apart} |")  # noqa: T201  as above


if __name__ == "__main__":
    main()
