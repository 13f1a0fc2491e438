"""Our arms on public collections, beside what others report; prints a Markdown table.

    python3 run.py python benchmarks/field.py FOLDER [FOLDER ...] --out out/field

Each FOLDER is a collection in BEIR layout, named as in ``field.toml`` beside this file; its
judgements are those of the split test, or of dev where there is no test. Every one
is imported (``harness import beir``) and run (``harness run``) in a project of its own below the
folder of ``--out``; vectors are kept there, so that a second call is quick.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
ARMS = (
    "fts5",
    "fts5-porter",
    "tantivy",
    "tantivy-stem",
    "dense",
    "hybrid",
    "hybrid-rrf",
    "hash-hybrid",
)
SHOWN = ("nDCG@10", "RR@10", "R@100", "AP@100", "Judged@10")

Scores = Mapping[str, Mapping[str, Mapping[str, float]]]
"""What ``harness run`` writes: ``{arm: {measure: {mean, low, high, queries}}}``."""


@dataclass(frozen=True, slots=True)
class Figure:
    """What somebody reports."""

    dataset: str
    measure: str
    arms: tuple[str, ...]
    value: float
    by: str
    tolerance: float | None = None


def harness(project: Path, *args: str) -> None:
    """Run one command of the CLI in ``project``."""
    command = [sys.executable, "-m", "harness", *args]
    subprocess.run(command, cwd=project, check=True)  # noqa: S603  our own command


def measure(folder: Path, out: Path) -> Scores:
    """Import and run one collection."""
    name = folder.resolve().name
    project = (out / "project").resolve()
    if not project.exists():
        project.mkdir(parents=True)
        shutil.copy(ROOT / "params.yaml", project)
        shutil.copytree(ROOT / "policy", project / "policy")
    result = project / "results" / name
    split = "test" if (folder / "qrels" / "test.tsv").is_file() else "dev"
    about = ["--name", name, "--split", split, "--force"]
    harness(project, "import", "beir", str(folder.resolve()), *about)
    harness(project, "run", "--dataset", name, "--arms", ",".join(ARMS), "--out", str(result))
    scores: Scores = json.loads((result / "scores.json").read_text(encoding="utf-8"))
    return scores


def table(name: str, scores: Scores) -> Iterator[str]:
    """One collection's means; the interval of the first measure beside it."""
    queries = int(next(iter(scores.values()))[SHOWN[0]]["queries"])
    yield f"### {name}, {queries} judged queries\n"
    yield f"| arm | {SHOWN[0]} | 95 % interval | " + " | ".join(SHOWN[1:]) + " |"
    yield "|---|" + "---|" * (len(SHOWN) + 1)
    for arm in sorted(scores, key=lambda arm: -scores[arm][SHOWN[0]]["mean"]):
        first, rest = scores[arm][SHOWN[0]], [scores[arm][m]["mean"] for m in SHOWN[1:]]
        means = " | ".join(f"{mean:.4f}" for mean in rest)
        interval = f"{first['low']:.4f} to {first['high']:.4f}"
        yield f"| {arm} | {first['mean']:.4f} | {interval} | {means} |"
    yield ""


def beside(figures: list[Figure], found: Mapping[str, Scores]) -> Iterator[str]:
    """Set what others report beside the best of the arms that the figure speaks of."""
    yield "| collection | measure | reported | by | ours | arm | difference | tolerance | within |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for f in figures:
        if f.dataset not in found:
            continue
        means = {arm: found[f.dataset][arm][f.measure]["mean"] for arm in f.arms}
        best = max(means, key=means.__getitem__)
        apart = means[best] - f.value
        allowed = "" if f.tolerance is None else f"{f.tolerance:.3f}"
        within = "" if f.tolerance is None else ("yes" if abs(apart) <= f.tolerance else "**no**")
        yield (
            f"| {f.dataset} | {f.measure} | {f.value:.4f} | {f.by} | {means[best]:.4f} | {best} |"
            f" {apart:+.4f} | {allowed} | {within} |"
        )
    yield ""


def main() -> None:
    """Measure every folder and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    written = tomllib.loads((Path(__file__).parent / "field.toml").read_text(encoding="utf-8"))
    figures = [Figure(**{**row, "arms": tuple(row["arms"])}) for row in written["figure"]]
    found = {folder.resolve().name: measure(folder, args.out) for folder in args.folders}
    lines = [*beside(figures, found)]
    for name, scores in found.items():
        lines += table(name, scores)
    text = "\n".join(lines)
    (args.out / "field.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
