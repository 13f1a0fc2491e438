"""What fingers do to words."""

from __future__ import annotations

from harness.collections.agent_mail.dice import Dice

FEWEST = 5
"""Letters of a word that is mistyped or cut."""
KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")


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
