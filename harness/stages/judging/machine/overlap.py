"""A rule that judges by shared words: free and the same everywhere, for tests and first tries."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.stages.judging.machine.protocol import FREE, Answer, Bound, Seen, cumulative
from harness.stages.judging.machine.settings import OverlapSettings

WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Overlap:
    """Scores a pair by the share of the query's words that title and text have."""

    settings: OverlapSettings
    template: str = ""

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def identity(self) -> str:
        return self.settings.model_dump_json()

    def bound(self, seen: Seen) -> Bound:  # noqa: ARG002  a rule costs nothing
        return FREE

    def judge(self, seen: Seen) -> Answer:
        asked = set(WORD.findall(seen.query.casefold()))
        has = set(WORD.findall(f"{seen.title} {seen.text}".casefold()))
        shared = len(asked & has) / len(asked) if asked else 0.0
        found = cumulative(shared, self.settings.cuts, self.settings.slope)
        note = f"{len(asked & has)} of {len(asked)} words"
        return Answer(found, "word overlap", note=note)
