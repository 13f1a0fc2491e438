"""One conversation: an opening, and replies that restate, follow up, quote, drift or chat."""

from collections.abc import Iterator
from dataclasses import dataclass

from agent_mail.dice import Dice
from agent_mail.lexicon import Component, Concept, Lexicon
from agent_mail.message import Fact
from agent_mail.world import Project, World

LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
FOREIGN = 0.08
MOST_REPLIES = 9
ROOTS = ("crates", "src", "services", "packages")
REPLIES = ("restate", "restate", "follow", "follow", "follow", "quote", "drift", "resend")
IMPORTANCE = ("low", *("normal",) * 6, "high", "high", "urgent")


@dataclass(frozen=True, slots=True)
class Written:
    """A message before it has a number and a time."""

    project: Project
    sender: str
    recipients: tuple[str, ...]
    subject: str
    body: str
    states: tuple[Fact, ...]
    follows: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Thread:
    """What a conversation is about."""

    world: World
    words: Lexicon
    project: Project
    concept: Concept
    component: Component
    language: str
    ticket: str
    thread_id: str
    importance: str
    ack_required: bool
    length: int

    @property
    def fact(self) -> Fact:
        """What its opening says."""
        return Fact(self.concept.name, self.component.name)

    def written(self, dice: Dice) -> Iterator[Written]:
        """Write all messages, in order."""
        pen = _Pen(self, dice)
        opening = pen.opening()
        yield opening
        for _ in range(self.length - 1):
            yield pen.reply(opening)


def plan(world: World, words: Lexicon, dice: Dice, before: Thread | None, room: int) -> Thread:
    """Draw a conversation of at most ``room`` messages.

    Some tickets differ from that of the conversation ``before`` in one letter only.
    """
    project = world.projects[min(dice.below(len(world.projects)), dice.below(len(world.projects)))]
    concept = dice.choice(list(words.concepts.values()))
    language = "en"
    if dice.chance(FOREIGN):
        language = dice.choice(list(words.languages))
        concept = words.concepts[dice.choice(list(words.languages[language].concepts))]
    ticket = f"{project.prefix}-{''.join(dice.choice(LETTERS) for _ in range(4))}"
    if before is not None and dice.chance(0.1):
        ticket = before.ticket[:-1] + dice.choice(LETTERS)
    importance = dice.choice(IMPORTANCE)
    standing = dice.chance(0.05)
    return Thread(
        world=world,
        words=words,
        project=project,
        concept=concept,
        component=dice.choice(list(words.components.values())),
        language=language,
        ticket=ticket,
        thread_id=f"standup-{project.slug}" if standing else ticket,
        importance=importance,
        ack_required=dice.chance(0.5 if importance in {"high", "urgent"} else 0.15),
        length=min(room, 1 + min(dice.below(MOST_REPLIES), dice.below(MOST_REPLIES))),
    )


class _Pen:
    """Writes the messages of one conversation."""

    def __init__(self, thread: Thread, dice: Dice) -> None:
        self._thread, self._dice = thread, dice
        self._prose = thread.words.prose
        self._told = dice.below(99)

    def opening(self) -> Written:
        thread, dice = self._thread, self._dice
        sender, recipients = self._people()
        lines = [self._said(thread.concept, thread.component), *self._details(dice.below(4))]
        if thread.language == "en":
            if dice.chance(0.4):
                lines.insert(dice.below(len(lines) + 1), self._pick("asides"))
            lines.append(self._pick("asks"))
        body = self._framed(" ".join(lines), sender, recipients)
        if dice.chance(0.12):
            body += (
                "\n\n```\n" + "\n".join(self._pick("logs") for _ in range(self._rows())) + "\n```"
            )
        subject = self._pick("subjects") if dice.chance(0.99) else ""
        return Written(thread.project, sender, recipients, subject, body, (thread.fact,), ())

    def reply(self, opening: Written) -> Written:
        thread, dice = self._thread, self._dice
        sender, recipients = self._people()
        kind = dice.choice(REPLIES) if dice.chance(0.7) else "chat"
        states: tuple[Fact, ...] = ()
        project, subject = thread.project, f"Re: {opening.subject}".rstrip()
        match kind:
            case "restate":
                states = (thread.fact,)
                body = f"{self._said(thread.concept, thread.component)} {self._pick('details')}"
            case "drift":
                concept = dice.choice(list(thread.words.concepts.values()))
                states = (Fact(concept.name, thread.component.name),)
                body = f"{self._pick('asides')} {_english(concept, thread.component, dice)}"
            case "resend":
                states = opening.states
                body = f"{self._pick('resends')}\n\n{opening.body}"
                subject = f"Fwd: {opening.subject}".rstrip()
                project = dice.choice(thread.world.projects) if dice.chance(0.5) else project
            case "follow":
                body = " ".join([self._pick("followups"), *self._details(dice.below(3))])
            case "quote":
                quoted = max(opening.body.split("\n"), key=len)
                body = f"> {quoted}\n\n{self._small()}"
            case _:
                body = self._small()
        if kind != "resend":
            body = self._framed(body, sender, recipients) if dice.chance(0.3) else body
        return Written(project, sender, recipients, subject, body, states, (thread.fact,))

    def _people(self) -> tuple[str, tuple[str, ...]]:
        first, *rest = self._dice.some(self._thread.project.members, 2 + self._dice.below(3))
        return first, tuple(rest)

    def _said(self, concept: Concept, component: Component) -> str:
        """Say it in the next of its ways, so that a thread does not repeat itself at once."""
        thread = self._thread
        said = concept.said
        if thread.language != "en":
            said = thread.words.languages[thread.language].concepts[concept.name].said
        self._told += 1
        return said[self._told % len(said)].format(c=component.name, n=2 + self._dice.below(96))

    def _small(self) -> str:
        language = self._thread.words.languages.get(self._thread.language)
        if language is None:
            return self._pick("chatter")
        return self._fill(self._dice.choice(language.small))

    def _details(self, count: int) -> list[str]:
        return [self._fill(text) for text in self._dice.some(self._prose["details"], count)]

    def _rows(self) -> int:
        return 60 if self._dice.chance(0.03) else 2 + self._dice.below(4)

    def _framed(self, body: str, sender: str, recipients: tuple[str, ...]) -> str:
        dice, people = self._dice, {"to": recipients[0], "from": sender}
        greeting = dice.choice(self._prose["greetings"]).format(**people)
        closing = dice.choice(self._prose["closings"]).format(**people)
        return "\n\n".join(part for part in (greeting, body, closing) if part)

    def _pick(self, kind: str) -> str:
        return self._fill(self._dice.choice(self._prose[kind]))

    def _fill(self, text: str) -> str:
        if "{" not in text:
            return text
        thread, dice, names = self._thread, self._dice, self._thread.words.names
        folder = f"{dice.choice(ROOTS)}/{thread.component.path}"
        number = 2 + dice.below(96)
        return text.format(
            agent=dice.choice(thread.project.members),
            c=thread.component.name,
            hash=f"{dice.below(1 << 28):07x}",
            head=thread.concept.head.format(n=number),
            hour=f"{dice.below(24):02}",
            minute=f"{dice.below(60):02}",
            n=number,
            path=f"{folder}/{dice.choice(names['files'])}",
            second=f"{dice.below(60):02}",
            small=1 + dice.below(9),
            symbol=f"{dice.choice(names['verbs'])}_{dice.choice(names['nouns'])}",
            ticket=thread.ticket,
            to=dice.choice(thread.project.members),
        )


def _english(concept: Concept, component: Component, dice: Dice) -> str:
    return dice.choice(concept.said).format(c=component.name, n=2 + dice.below(96))
