"""What busy loops beside a race do to its times, and to the verdicts that rest on them.

    python3 run.py python benchmarks/busy_race.py
    python3 run.py python benchmarks/busy_race.py --queries 200 --processes 4 --rounds 3

Run it on a quiet machine. The race without loops is the truth: bounds lie a fifth below and a
quarter above what it finds, so that each gate has one bound to fail and one to pass. Every other
race has loops beside it: niced or not, free, pinned to the first processor, or pinned there
together with the race. *Blind* is what the gates would say if they did not look at the load.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import psutil

from benchmarks.busy_engines import raced
from harness.core.engine import Manifest
from harness.core.evidence import Agreement, ArmResult, Evidence, Race
from harness.core.gate import Finding, Verdict
from harness.core.run import Run
from harness.gates import latency_ceiling, latency_ratio
from harness.gates.base.rules import Rules

RULES = Rules(confidence=0.95, resamples=1_000, seed=1, power=0.8)
PAIRS = (("light", "heavy"), ("light", "threads"), ("heavy", "sleeper"), ("threads", "heavy"))
WIDE = 1e9
BOUNDS = {Verdict.FAIL: 0.8, Verdict.PASS: 1.25}
"""What a quiet machine says where the bound is so many times what it found."""
SPIN = "while True: pass"


class Setting(NamedTuple):
    """What runs beside a race."""

    loops: int
    niced: bool
    where: str
    """``free``, ``pinned`` (the loops, to the first processor) or ``together`` (the race too)."""


@contextmanager
def beside(setting: Setting) -> Iterator[None]:
    """Run loops while the block does."""
    command = [*(["nice", "-n", "19"] if setting.niced else []), sys.executable, "-c", SPIN]
    own = psutil.Process()
    everywhere = own.cpu_affinity()
    loops = [subprocess.Popen(command) for _ in range(setting.loops)]  # noqa: S603  ours
    try:
        if setting.where != "free":
            for loop in loops:
                psutil.Process(loop.pid).cpu_affinity(everywhere[:1])
        if setting.where == "together":
            own.cpu_affinity(everywhere[:1])
        yield
    finally:
        own.cpu_affinity(everywhere)
        for loop in loops:
            loop.kill()
            loop.wait()


def evidence(race: Race, control: str, candidate: str) -> Evidence:
    """Give two arms that were raced, and nothing else."""
    sides = [
        ArmResult(arm, Manifest(arm, "1", 1, "none", arm), Run.of(arm, []), {})
        for arm in (control, candidate)
    ]
    alike = Agreement((), (), {})
    return Evidence("busy", sides[0], sides[1], alike, alike, {}, {}, {}, race)


class Question(NamedTuple):
    """A gate, and what a quiet machine says."""

    pair: tuple[str, str]
    settings: latency_ratio.Settings | latency_ceiling.Settings
    truth: Verdict

    def judged(self, race: Race, max_stolen: float) -> Finding:
        """Ask it of a race."""
        asked = self.settings.model_copy(update={"max_stolen": max_stolen})
        of = evidence(race, *self.pair)
        if isinstance(asked, latency_ratio.Settings):
            return latency_ratio.judge("ratio", asked, of, RULES)
        return latency_ceiling.judge("ceiling", asked, of, RULES)


def questions(quiet: Race, max_noise: float) -> Iterator[Question]:
    """Put bounds around what the quiet race found."""
    reference_ms = float(sorted(quiet.reference_ns.ravel())[quiet.reference_ns.size // 2]) / 1e6
    usual = {"max_noise": WIDE, "max_stolen": WIDE}
    for pair, percent in itertools.product(PAIRS, ("p50", "p95")):
        shape = latency_ratio.Settings.model_validate(
            usual | {"percent": percent, "max_ratio": WIDE}
        )
        found = Question(pair, shape, Verdict.PASS).judged(quiet, WIDE).estimate
        for truth, factor in BOUNDS.items():
            if found is not None:
                limits = {"max_ratio": found.value * factor, "max_noise": max_noise}
                bound = shape.model_copy(update=limits)
                yield Question(pair, bound, truth)
        budget = latency_ceiling.Settings.model_validate(
            usual
            | {"percent": percent, "max_ms": WIDE, "max_scale": 3, "reference_ms": reference_ms}
        )
        found = Question(pair, budget, Verdict.PASS).judged(quiet, WIDE).estimate
        for truth, factor in BOUNDS.items():
            if found is not None:
                limits = {"max_ms": found.value * factor, "max_noise": max_noise}
                bound_ms = budget.model_copy(update=limits)
                yield Question(pair, bound_ms, truth)


def row(setting: Setting, race: Race, asked: list[Question], max_stolen: float) -> str:
    """Say what was taken, and how often the gates said what, blind and not."""
    worst = max(race.stolen.values(), key=lambda stolen: stolen.share)
    waited = max(stolen.waited for stolen in race.stolen.values())
    said, blind = Counter[str](), Counter[str]()
    for question in asked:
        for counts, bound in ((said, max_stolen), (blind, WIDE)):
            verdict = question.judged(race, bound).verdict
            counts[
                "open" if verdict is Verdict.INCONCLUSIVE else str(verdict is question.truth)
            ] += 1
    words = ["niced" if setting.niced else "", setting.where] if setting.loops else ["", ""]
    numbers = [f"{share:.1%}" for share in (waited, worst.others, worst.steal, worst.share)]
    counts = [f"{of['True']} / {of['open']} / {of['False']}" for of in (said, blind)]
    return f"| {setting.loops} | " + " | ".join([*words, *numbers, *counts]) + " |"


def settings() -> Iterator[Setting]:
    """List what runs beside, quiet first."""
    yield Setting(0, niced=False, where="free")
    for loops, niced, where in itertools.product(
        (1, 2, 6), (False, True), ("free", "pinned", "together")
    ):
        yield Setting(loops, niced=niced, where=where)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--max-stolen", type=float, default=0.02)
    parser.add_argument("--max-noise", type=float, default=1.3)
    parser.add_argument("--loops", type=int, default=6, help="The most of them.")
    asked = parser.parse_args()
    say("| loops | | where | waited | others | steal | taken | right / open / wrong | blind |")
    say("| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    known: list[Question] = []
    for _ in range(asked.rounds):
        for setting in settings():
            if setting.loops > asked.loops:
                continue
            with TemporaryDirectory() as folder, beside(setting):
                race = raced(Path(folder), processes=asked.processes, queries=asked.queries)
            if not known:
                known = list(questions(race, asked.max_noise))
                taken = max(stolen.share for stolen in race.stolen.values())
                if taken > asked.max_stolen:
                    sys.stderr.write(f"not a quiet machine: {taken:.1%} was taken without loops\n")
            say(row(setting, race, known, asked.max_stolen))


def say(line: str) -> None:
    """Print a line at once."""
    print(line, flush=True)  # noqa: T201  the output


if __name__ == "__main__":
    main()
