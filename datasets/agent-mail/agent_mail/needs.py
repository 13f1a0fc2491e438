"""What a query needs, told by the marks that an answering message bears."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from agent_mail.message import TICKET, Fact, Message
from agent_mail.terms import WORD
from harness.core.records import Scalar

Mark = tuple[str, ...]

GRAM = 5
"""Words in a row that a phrase query asks for."""
MEANT, RELATED, NOT = 2, 1, 0
LOTTERY = 64


@dataclass(frozen=True, slots=True)
class Need:
    """A query before its judgements; a message has the best grade of its marks.

    A message that bears a wanted mark and does not pass ``params`` has grade 0. A need with
    ``negative`` must be answered by nothing, any other by something; with ``contrast`` it needs a
    message that a wrong stack would show.
    """

    text: str
    slices: tuple[str, ...]
    wanted: Mapping[Mark, int]
    intent: str | None = None
    params: Mapping[str, Scalar] = field(default_factory=dict, hash=False)
    negative: bool = False
    contrast: bool = False


def marks(message: Message) -> Iterator[Mark]:
    """Name everything about a message that a query can ask for."""
    for fact in message.states:
        yield ("states", *fact)
        yield ("concept", fact.concept)
        yield ("component", fact.component)
    for fact in message.follows:
        yield ("follows", *fact)
        yield ("thread of", fact.concept)
    for name in message.identifiers():
        yield ("names", name)
        if TICKET.fullmatch(name):
            parent = name.partition(".")[0]
            yield ("near", parent[:-1])
            if parent != name:
                yield ("names part of", parent)
    words = WORD.findall(message.text.casefold())
    for at in range(len(words) - GRAM + 1):
        yield ("says", *words[at : at + GRAM])
    yield ("lot", str(message.message_id % LOTTERY))


def about(fact: Fact) -> dict[Mark, int]:
    """Want a fact; what shares only its concept or its component is the contrast."""
    return {
        ("states", *fact): MEANT,
        ("follows", *fact): RELATED,
        ("concept", fact.concept): NOT,
        ("component", fact.component): NOT,
    }


def concept(name: str) -> dict[Mark, int]:
    """Want a concept, whatever it happens to."""
    return {("concept", name): MEANT, ("thread of", name): RELATED}


def named(identifier: str) -> dict[Mark, int]:
    """Want an identifier; a ticket's parts and parent are related, its look-alikes are not."""
    wanted: dict[Mark, int] = {("names", identifier): MEANT}
    if TICKET.fullmatch(identifier):
        parent = identifier.partition(".")[0]
        wanted[("near", parent[:-1])] = NOT
        if parent == identifier:
            wanted[("names part of", identifier)] = RELATED
        else:
            wanted[("names", parent)] = RELATED
    return wanted


def lot(number: int) -> dict[Mark, int]:
    """Want nothing: some messages that must not be taken for an answer."""
    return {("lot", str(number % LOTTERY)): NOT}
