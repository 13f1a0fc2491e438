"""Queries about drawn messages, one function a kind; ``generate.py`` says of which messages."""

from collections.abc import Iterator

from agent_mail import filters
from agent_mail.dice import Dice
from agent_mail.lexicon import Concept, lexicon
from agent_mail.message import TICKET, Fact, Message
from agent_mail.needs import GRAM, LOTTERY, Need, about, concept, lot, named
from agent_mail.terms import WORD, terms

FEWEST = 5
"""Letters of a word that is mistyped or cut."""
KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
MOST_KEYWORDS = 3


def topic(number: int, message: Message, dice: Dice) -> Iterator[Need]:
    """Ask for one need in five ways."""
    fact, words = message.states[0], lexicon()
    about_it, component = words.concepts[fact.concept], words.components[fact.component]
    typed = keywords(about_it, fact, dice)
    frames = words.frames
    natural = dice.choice(frames["natural"]).format(asked=about_it.asked, c=component.name)
    other = dice.choice(frames["paraphrase"]).format(other=about_it.other, alias=component.other)
    asked = {
        "keyword": typed,
        "natural-language": natural,
        "paraphrase": other,
        "typo": mistyped(typed, dice),
        "prefix": cut(typed, dice),
    }
    for name, text in asked.items():
        yield Need(text, (name,), about(fact), intent=f"need-{number:04}")


def keywords(asked: Concept, fact: Fact, dice: Dice) -> str:
    """Take some content words of the concept, and the component."""
    content = list(dict.fromkeys(terms(asked.asked)))[:MOST_KEYWORDS]
    parts = [" ".join(content), fact.component]
    return " ".join(parts if dice.chance(0.6) else reversed(parts))


def identifier(message: Message, dice: Dice) -> Iterator[Need]:
    """Ask for a ticket, a path, a function or a commit that the message names."""
    names = sorted(
        name for name in message.identifiers() if any(c in name for c in "_./0123456789")
    )
    tickets = [name for name in names if TICKET.fullmatch(name)]
    if not names:
        return
    name = dice.choice(tickets if tickets and dice.chance(0.5) else names)
    shown = name.upper() if TICKET.fullmatch(name) and dice.chance(0.15) else name
    text = dice.choice(lexicon().frames["identifier"]).format(id=shown)
    yield Need(text, ("identifier",), named(name))


def phrase(message: Message, dice: Dice) -> Iterator[Need]:
    """Ask for words in a row around the component's name, in quotation marks."""
    component = message.states[0].component
    before, found, after = message.body.casefold().partition(component)
    words = WORD.findall(before.rpartition("\n")[2])[1 - GRAM :]
    words += WORD.findall(found + after.partition("\n")[0])[: GRAM - 1]
    if len(words) < GRAM:
        return
    start = dice.below(len(words) - GRAM + 1)
    asked = tuple(words[start : start + GRAM])
    wanted = {("says", *asked): 2, ("component", component): 0}
    yield Need(f'"{" ".join(asked)}"', ("phrase",), wanted)


def foreign(message: Message) -> Iterator[Need]:
    """Ask for the fact in the message's language."""
    fact = message.states[0]
    found = lexicon().languages[message.language].concepts.get(fact.concept)
    if found is not None:
        slices = ("language", f"language-{message.language}")
        yield Need(f"{found.asked} {fact.component}", slices, about(fact))


def edited(message: Message, dice: Dice) -> Iterator[Need]:
    """Ask for what a message says since it was changed."""
    fact = message.states[0]
    text = keywords(lexicon().concepts[fact.concept], fact, dice)
    yield Need(text, ("edited",), about(fact))


def filtered(name: str, message: Message, dice: Dice) -> Iterator[Need]:
    """Ask for a concept where the filter decides which of its messages are meant."""
    fact = message.states[0]
    asked = lexicon().concepts[fact.concept].asked
    yield Need(
        dice.choice(lexicon().frames["filtered"]).format(asked=asked),
        ("filter", f"filter-{name}"),
        concept(fact.concept),
        params=filters.params(name, message, dice),
        contrast=True,
    )


def hostile(number: int, message: Message, dice: Dice) -> Iterator[Need]:
    """Put an honest query inside of broken syntax."""
    words, fact = lexicon(), message.states[0]
    typed = keywords(words.concepts[fact.concept], fact, dice)
    wrapped = words.wrapped[number % len(words.wrapped)].format(q=typed)
    yield Need(wrapped, ("hostile",), about(fact))


def junk(number: int, dice: Dice) -> Need:
    """Ask what no one could answer."""
    text = lexicon().junk[number % len(lexicon().junk)]
    return Need(text, ("negative", "hostile"), lot(dice.below(LOTTERY)), negative=True)


def unanswered(number: int, message: Message, dice: Dice) -> Iterator[Need]:
    """Ask, in turn, for what was never written about, never of this component, never a ticket."""
    words, slices = lexicon(), ("negative",)
    component = message.states[0].component
    match number % 3:
        case 0:
            text = f"{dice.choice(words.heldout)} {component}"
            yield Need(text, slices, {("component", component): 0}, negative=True)
        case 1:
            fact = Fact(dice.choice(list(words.concepts)), component)
            text = keywords(words.concepts[fact.concept], fact, dice)
            yield Need(text, slices, about(fact), negative=True)
        case _:
            tickets = sorted(n for n in message.identifiers() if TICKET.fullmatch(n))
            if tickets:
                absent = tickets[0].partition(".")[0][:-1] + dice.choice("0123456789")
                yield Need(absent, slices, named(absent), negative=True)


def mistyped(text: str, dice: Dice) -> str:
    """Make one slip in one of the longer words: a letter lost, doubled, swapped or hit beside."""
    words = text.split()
    long = [at for at, word in enumerate(words) if len(word) >= FEWEST and word.isalpha()]
    if not long:
        return text
    at = dice.choice(long)
    words[at] = _slip(words[at], dice)
    return " ".join(words)


def _slip(word: str, dice: Dice) -> str:
    at = 1 + dice.below(len(word) - 2)
    head, letter, tail = word[:at], word[at], word[at + 1 :]
    match dice.below(4):
        case 0:
            return head + tail
        case 1:
            return head + letter + letter + tail
        case 2 if letter != tail[0]:
            return head + tail[0] + letter + tail[1:]
        case _:
            return head + _beside(letter, dice) + tail


def _beside(letter: str, dice: Dice) -> str:
    row = next((row for row in KEYS if letter in row), KEYS[1])
    near = [other for other in row if abs(row.find(other) - row.find(letter)) == 1]
    return dice.choice(near)


def cut(text: str, dice: Dice) -> str:
    """Stop typing inside the last of the longer words; half of the time with a star."""
    words = text.split()
    at = max((at for at, word in enumerate(words) if len(word) >= FEWEST), default=len(words) - 1)
    word = words.pop(at)
    keep = max(3, len(word) - 1 - dice.below(len(word) // 2))
    return " ".join([*words, word[:keep] + ("*" if dice.chance(0.5) else "")])
