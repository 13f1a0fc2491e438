"""Judgements by construction: every message is compared with every need, once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from harness.collections.agent_mail.dice import Lots
from harness.collections.agent_mail.filters import passes
from harness.collections.agent_mail.message import Message
from harness.collections.agent_mail.needs import Mark, Need, marks

CONTRAST = 4
"""Messages of grade 0 that are judged for each query; all others without a grade are 0 too."""


class Judged(NamedTuple):
    """A need and its grades by message."""

    need: Need
    grades: Mapping[int, int]

    @property
    def fit(self) -> bool:
        """Whether what the need asks of its judgements is so."""
        graded = self.grades.values()
        if self.need.negative:
            return bool(graded) and max(graded) == 0
        return max(graded, default=0) == max(self.need.wanted.values()) and (
            not self.need.contrast or min(graded) == 0
        )


def judge(needs: Sequence[Need], messages: Iterable[Message], seed: int) -> list[Judged]:
    """Grade all that is relevant, and some that is not, drawn by lot."""
    wanted: dict[Mark, list[int]] = defaultdict(list)
    for at, need in enumerate(needs):
        for mark in need.wanted:
            wanted[mark].append(at)
    relevant: list[dict[int, int]] = [{} for _ in needs]
    others: list[Lots[int]] = [Lots(seed + at, CONTRAST) for at in range(len(needs))]
    for message in messages:
        best: dict[int, int] = {}
        for mark in marks(message):
            for at in wanted.get(mark, ()):
                best[at] = max(best.get(at, 0), needs[at].wanted[mark])
        for at, grade in best.items():
            if grade and passes(message, needs[at].params):
                relevant[at][message.message_id] = grade
            else:
                others[at].offer(message.message_id, message.message_id)
    return [
        Judged(need, relevant[at] | dict.fromkeys(others[at].drawn(), 0))
        for at, need in enumerate(needs)
    ]
