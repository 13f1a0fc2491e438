"""One process of a race: opens every arm, asks, and leaves what it measured in a file."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.replay.fresh import Advance
from harness.replay.race import Expected
from harness.replay.race import race as run_race
from harness.replay.race_texts import Texts
from harness.stages.load.opener import Opener
from harness.stages.race.times import write_part
from harness.stages.replay.tally import Tally, check_apart, check_turns


@dataclass(frozen=True, slots=True)
class RacePart:
    """A value that a new process can be sent; calling it runs the part."""

    openers: Mapping[str, Opener]
    """By arm."""
    expected: Mapping[str, Mapping[str, Expected]]
    """By arm and query: what the arm's run has."""
    texts: Texts
    order: str
    """What the variants among ``texts`` were drawn by."""
    k: int
    seed: int
    process: int
    """Its number, from 0: each has an order of its own."""
    time_limit_s: float
    to: Path

    @property
    def turns(self) -> int:
        """How often each arm is queried."""
        return sum(map(len, self.texts))

    def __call__(self, advance: Advance) -> None:
        """Open the arms in an order of this process, race them, and write the part.

        Raises:
            IndexNotReady: an index is not the one that its arm was replayed on.
            EvidenceError: the time of one arm covers another's.
        """
        began_at = datetime.now(UTC).isoformat(timespec="seconds")
        order = random.Random(f"{self.seed} {self.process}").sample(
            sorted(self.openers), len(self.openers)
        )
        with ExitStack() as opened:
            searchers = {arm: opened.enter_context(self.openers[arm]()) for arm in order}
            check_apart(searchers)
            tallies = {arm: Tally(searcher) for arm, searcher in searchers.items()}
            lap = run_race(
                tallies,
                self.expected,
                self.texts,
                k=self.k,
                seed=self.seed,
                process=self.process,
                time_limit_s=self.time_limit_s,
                advance=advance,
            )
        check_turns(tallies, self.turns, self.k)
        write_part(self.to, lap, self.process, began_at, self.order)
