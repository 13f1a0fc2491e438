"""Engines of known cost, raced as ``harness race`` does: what a busy machine makes of them."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from harness.core.engine import Answer, Hit, Manifest
from harness.core.evidence import Race
from harness.core.records import Query
from harness.core.run import Status
from harness.replay.fresh import Advance, in_fresh_process
from harness.replay.race import Expected
from harness.replay.race import race as run_race
from harness.replay.race_texts import draw
from harness.stages.race.stage import race_of
from harness.stages.race.times import read_part, read_times, write_part, write_times

K, SEED, LIMIT_S = 10, 20261123, 60.0
SPREAD = 0.4
"""Of the logarithms of what a text costs."""
BLOCK = bytes(1 << 16)
"""Hashing it takes a fixed number of cycles, off the interpreter's lock."""
LIGHT, HEAVY = 12, 180
"""Blocks of the usual text: below half a millisecond, and six."""


def spin(blocks: float) -> None:
    """Work on one processor."""
    for _ in range(max(1, round(blocks))):
        hashlib.sha256(BLOCK).digest()


def split(blocks: float, pool: ThreadPoolExecutor) -> None:
    """Work on two processors at once."""
    list(pool.map(spin, (blocks / 2, blocks / 2)))


@dataclass(frozen=True)
class Costs:
    """Answers every text with one document, at a cost that the text and the name determine."""

    name: str
    spend: Callable[[float], None]

    @property
    def manifest(self) -> Manifest:
        """Who this is."""
        return Manifest(self.name, "1", 1, "none", self.name)

    def search(self, text: str, k: int) -> Answer:  # noqa: ARG002  one hit is never too many
        """Spend what the text costs."""
        level = int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 16**8
        self.spend(math.exp(SPREAD * math.sqrt(12) * (level - 0.5)))
        return Answer((Hit("d1", 1.0, 1.0),), self.manifest.fingerprint)


def engines(pool: ThreadPoolExecutor) -> Mapping[str, Costs]:
    """Give a light engine, a heavy one, one on two threads, and one that mostly sleeps."""
    return {
        "light": Costs("light", lambda cost: spin(LIGHT * cost)),
        "heavy": Costs("heavy", lambda cost: spin(HEAVY * cost)),
        "threads": Costs("threads", lambda cost: split(HEAVY * cost, pool)),
        "sleeper": Costs("sleeper", lambda cost: (time.sleep(0.004 * cost), spin(LIGHT))[1]),
    }


@dataclass(frozen=True)
class Part:
    """One process of the race; sent to it."""

    process: int
    queries: int
    to: Path

    def __call__(self, advance: Advance) -> None:
        """Race the four engines."""
        texts = draw(
            [Query(f"q{at:04}", f"question {at:04}") for at in range(self.queries * 5 // 4)],
            {},
            timed=self.queries,
            warm=self.queries // 4,
            repeated=self.queries // 4,
            seed=SEED,
        )
        began_at = datetime.now(UTC).isoformat()
        with ThreadPoolExecutor(2) as pool:
            arms = engines(pool)
            lap = run_race(
                arms,
                {name: _expected(arm, self.queries * 5 // 4) for name, arm in arms.items()},
                texts,
                k=K,
                seed=SEED,
                process=self.process,
                time_limit_s=LIMIT_S,
                advance=advance,
            )
        write_part(self.to, lap, self.process, began_at)


def _expected(arm: Costs, count: int) -> dict[str, Expected]:
    answer: Expected = Status.ANSWERED, ("d1",), arm.manifest.fingerprint
    return {f"q{at:04}": answer for at in range(count)}


def raced(folder: Path, *, processes: int, queries: int) -> Race:
    """Race the engines in fresh processes; the files are left in ``folder``."""
    parts = []
    for process in range(processes):
        part = Part(process, queries, folder / f"{process}.parquet")
        in_fresh_process(part, lambda _: None)
        parts.append(read_part(part.to))
    asked = sorted(set(parts[0].calls.column("query_id").to_pylist()))
    again = set(
        np.array(parts[0].calls.column("query_id").to_pylist())[
            np.array(parts[0].calls.column("repetition").to_pylist()) == 1
        ].tolist()
    )
    asked.sort(key=lambda query: query not in again)
    times = folder / "times.parquet"
    write_times(times, parts, asked, "")
    strays = {arm for part in parts for arm in part.about["strays"]}
    return race_of(read_times(times), ("light", "heavy", "threads", "sleeper"), strays)
