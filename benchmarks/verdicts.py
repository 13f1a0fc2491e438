"""How often shipped gates promote what they must not, and an equal candidate: one table.

    python3 run.py python benchmarks/verdicts.py
    python3 run.py python benchmarks/verdicts.py A.2 --queries 200 --trials 4000

A cell draws trials of one family at one size, batched by columns, through the functions that the
shipped gates call (``benchmarks/verdict_questions.py``). A sample of its trials goes through the
gates of the shipped policies as well, and must get the same verdicts. Cells that are on disk, of
the same code, are kept. Exit code 1 where a rate of false PASS is above what is promised.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from benchmarks.verdict_families import FAMILIES, Draws, Family
from benchmarks.verdict_questions import is_open
from harness.core.gate import Verdict
from harness.stats.interval import share

SIZES = (30, 75, 200, 1_000)
TRIALS, BLOCK, CHECKED = 2_000, 500, 6
"""Trials of a cell; those drawn at once; and of these, those that the gate itself judges."""
SEED, CONFIDENCE, ROOM = 20_261_127, 0.95, 0.01
CODE = ("benchmarks/verdict*.py", "harness/stats/**/*.py", "harness/gates/**/*.py", "policy/*.toml")
UNNAMED = {"interval_holds_bound", "broken", ""}
"""Causes that name no premise."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One family at one size."""

    part: str
    family: str
    size: int
    trials: int
    promised: float
    """Highest rate of false PASS."""
    false: float
    """Share of trials that pass where they must not, and its exact interval."""
    low: float
    high: float
    power: float
    """Share of trials that pass where the candidate is equal."""
    premise: str
    """Why the gate is INCONCLUSIVE, where it names a cause besides its interval; or the premise
    that the family breaks: where the policy does not declare it, nothing passes."""
    declared: float | None
    """Share that pass where the policy declares that premise falsely; None without one."""
    seconds: float
    code: str

    @property
    def broken(self) -> bool:
        """Whether the rate is surely above the promise, by more than the room for chance."""
        return self.low > self.promised + ROOM


def cell(family: Family, size: int, trials: int, code: str) -> Cell:
    """Draw and judge one cell."""
    began = time.perf_counter()
    passed, causes = _passed(family, size, trials, equal=False)
    false = 0 if family.premise and is_open(family.premise) else passed
    found = share(false, trials, confidence=CONFIDENCE)
    right, quiet = _passed(family, size, trials, equal=True)
    named = [cause for cause, _ in (causes + quiet).most_common() if cause not in UNNAMED]
    why = named[0] if named and not false else ""
    premise = f"premise: {family.premise}" if family.premise else why
    declared = passed / trials if family.premise else None
    seconds = time.perf_counter() - began
    return Cell(
        family.part, family.name, size, trials, family.promised, found.value, found.low,
        found.high, right / trials, premise, declared, round(seconds, 1), code,
    )  # fmt: skip


def _passed(family: Family, size: int, trials: int, *, equal: bool) -> tuple[int, Counter[str]]:
    """Count the trials that pass; and what the gate itself gives as causes in a sample of them.

    Raises:
        AssertionError: the gate itself judges a trial otherwise.
    """
    passed, causes = 0, Counter[str]()
    for block, start in enumerate(range(0, trials, BLOCK)):
        rng = np.random.default_rng((SEED, size, block, equal, *family.name.encode()))
        drawn = family.draw(rng, Draws(size, min(BLOCK, trials - start), equal))
        said = family.question.passes(drawn)
        passed += int(said.sum())
        if block:
            continue
        some = [*np.flatnonzero(said)[:CHECKED], *np.flatnonzero(~said)[:CHECKED]]
        for trial in some:
            finding = family.question.rule(drawn, int(trial))
            itself = finding.verdict is Verdict.PASS
            if itself is not bool(said[trial]):
                raise AssertionError(
                    f"{family.name}, {size}, trial {trial}: the gate itself says"
                    f" {finding.verdict.value}, the batch {said[trial]}: {finding.reason}"
                )
            causes[str(finding.cause)] += not itself
    return passed, causes


def code_digest() -> str:
    """Digest the code and the policies that cells follow from."""
    files = sorted(path for pattern in CODE for path in Path().glob(pattern))
    return sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def cells(
    families: Sequence[Family], sizes: Iterable[int], trials: int, out: Path, jobs: int
) -> list[Cell]:
    """Return each cell, from disk where this code judged it; write each as it is done."""
    code, wanted = code_digest(), [(family, size) for family in families for size in sizes]
    done = {
        (one.family, one.size): one
        for one in _read(out)
        if one.code == code and one.trials == trials
    }
    left = [(family, size) for family, size in wanted if (family.name, size) not in done]
    with ProcessPoolExecutor(jobs) as pool:
        each = [pool.submit(cell, family, size, trials, code) for family, size in left[::-1]]
        for future in as_completed(each):
            one = future.result()
            done[one.family, one.size] = one
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps([asdict(cell) for cell in done.values()], indent=1))
            print(f"{one.family}, {one.size}: {one.seconds} s", file=sys.stderr, flush=True)  # noqa: T201  progress
    return [done[family.name, size] for family, size in wanted]


def _read(path: Path) -> list[Cell]:
    return [Cell(**one) for one in json.loads(path.read_text())] if path.is_file() else []


def lines(found: Sequence[Cell]) -> Iterator[str]:
    """Yield the table as Markdown."""
    yield (
        "| part | family | n | false PASS | 95 % interval | promised | falsely declared |"
        " equal passes | why |"
    )
    yield "| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | --- |"
    for one in found:
        why = "**above**" if one.broken else one.premise
        declared = "" if one.declared is None else f" {one.declared:.1%}"
        yield (
            f"| {one.part} | {one.family} | {one.size:,} | {one.false:.2%} |"
            f" {one.low:.2%} to {one.high:.2%} | {one.promised:.2%} |{declared} |"
            f" {one.power:.1%} | {why} |"
        )


def main() -> None:
    """Judge the cells that were asked for, and print their table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", help="beginnings of parts, as A.2; all by default")
    parser.add_argument("--queries", type=int, nargs="+", default=SIZES)
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/verdicts.json"))
    asked = parser.parse_args()
    families = [one for one in FAMILIES if one.part.startswith(tuple(asked.which) or "")]
    found = cells(families, asked.queries, asked.trials, asked.out, asked.jobs)
    table = "\n".join(lines(found))
    asked.out.with_suffix(".md").write_text(table + "\n")
    print(table)  # noqa: T201  the output
    sys.exit(any(one.broken for one in found))


if __name__ == "__main__":
    main()
