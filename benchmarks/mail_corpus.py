"""Messages and questions for the times of message search, and a table of medians and ratios.

Messages are those of ``agent_mail``. Questions are words, phrases and
identifiers of messages that are there: of nine, about four are one or two words, four are three to
five words or a phrase, and one is a prefix, an identifier or has signs.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.made import base
from harness_engines.stacks.agent_mail import arm
from harness_engines.stacks.agent_mail.contract import Event, Message, Payload, Weights
from harness_engines.stacks.agent_mail.sqlite import store
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore
from harness_engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine

SEED = 20_260_101
WEIGHTS = (2, 1, 4)
"""Of subject, body and identifiers, as in the arms."""
OF_WORDS = Weights(WEIGHTS[0], WEIGHTS[2])
_WORD = re.compile(r"[^\W_]{3,}")
_TICKET = re.compile(r"\b[a-z]{2}-[a-z0-9]{4}\b")
_KINDS = {
    "1": 15,
    "2": 18,
    "3": 15,
    "4": 8,
    "5": 10,
    "phrase": 10,
    "prefix": 8,
    "id": 8,
    "signs": 8,
}
"""How often each kind is asked."""


class Ratio(NamedTuple):
    """Time of one way by the time of another, and what it should be."""

    name: str
    above: str
    below: str
    target: str
    percentile: int = 50

    def row(self, where: str, taken: Mapping[str, NDArray[np.float64]]) -> str:
        """One line: of the two percentiles, and the median of the ratios one by one."""
        above, below = taken[self.above], taken[self.below]
        whole = np.percentile(above, self.percentile) / np.percentile(below, self.percentile)
        each = np.median(above / below) if above.shape == below.shape else np.nan
        shown = "" if np.isnan(each) else f"{each:.2f}"
        numbers = f"p{self.percentile} | {whole:.2f} | {shown}"
        return f"| {where} | {self.name} | {numbers} | {self.target} |"


def messages(count: int) -> list[Message]:
    """Make so many messages, the same ones every time."""
    made = [arm.message(at, d) for at, d in enumerate(base(SEED, count), start=1)]
    return made[:count]


def questions(of: Sequence[Message], count: int) -> list[str]:
    """Draw texts to search for."""
    dice, found = Random(SEED), list[str]()
    while len(found) < count:
        (kind,) = dice.choices(list(_KINDS), list(_KINDS.values()))
        message = dice.choice(of)
        words = _WORD.findall(message.body)
        if len(words) > 5 and (text := _question(kind, words, message, dice)):  # noqa: PLR2004  words enough
            found.append(text)
    return found


def _question(kind: str, words: list[str], message: Message, dice: Random) -> str:
    one, two, three = dice.sample(words, 3)
    match kind:
        case "phrase":
            at = dice.randrange(len(words) - 1)
            return f'"{words[at]} {words[at + 1]}"'
        case "prefix":
            return f"{one[:3]}*"
        case "id":
            tickets = _TICKET.findall(message.subject)
            return tickets[0] if tickets else ""
        case "signs":
            return dice.choice([f"+{one} +{two}", f"+{one} {two} {three}", f"{one} -{two}"])
        case _:
            return " ".join(dice.sample(words, int(kind)))


def beginnings(of: Sequence[Message], count: int) -> list[str]:
    """Draw what is typed of a word of a subject: its first 2 to 6 letters."""
    dice, found = Random(SEED), list[str]()
    while len(found) < count:
        words = _WORD.findall(dice.choice(of).subject.lower())
        if words:
            found.append(dice.choice(words)[: dice.randint(2, 6)])
    return found


def silent(_event: Event, _payload: Payload) -> None:
    """Take an event and say nothing."""


def tantivy_over(root: Path, source: MessageStore) -> TantivyMailEngine:
    """Return an engine over the index in ``root``, built or not."""
    return TantivyMailEngine(root, source, silent, OF_WORDS)


def with_projects(made: MessageStore, of: Sequence[Message]) -> None:
    """Add the projects that messages belong to."""
    for project in sorted({message.project_id for message in of}):
        made.add_project(project, f"project-{project}")


def filled(path: Path, of: Sequence[Message]) -> None:
    """Make a store of messages."""
    with store.create(path) as made:
        with_projects(made, of)
        made.insert_all((message, {}) for message in of)
