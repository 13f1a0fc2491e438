"""Untrusted text, made printable: queries, documents and files may hold anything.

What comes out holds only characters that XML 1.0 allows, so the same text serves HTML, JUnit and
SVG, and no terminal takes it for a command. Each of those still escapes its own markup. Numbers are
printed with their nouns: 1 query was, 2 queries were.
"""

import json
import re
from functools import cache

FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Controls that turn the rest of a line around: they can make a page say what it does not."""
SPACE = 0x20
DELETE = 0x7F
VERBS = {"was": "were", "is": "are", "has": "have", "shows": "show", "makes": "make"}


def _shown(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code < SPACE:
        return chr(0x2400 + code)
    return "\u2421" if code == DELETE else "\ufffd"


def printable(text: str) -> str:
    """Show control characters as pictures and direction overrides by their number."""
    shown = FORBIDDEN.sub(_shown, text.replace("\r\n", "\n"))
    return DIRECTION.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", shown)


def one_line(text: str, limit: int | None = None) -> str:
    """Make ``text`` printable on one line of at most ``limit`` characters."""
    line = " ".join(printable(text).split())
    if limit is not None and len(line) > limit:
        return line[: limit - 1].rstrip() + "…"
    return line


def between(text: str, limit: int) -> str:
    """Make ``text`` a line for a terminal, and leave out its middle where it is longer."""
    line = printable(text).replace("\n", " ")
    line = "".join(one if one.isprintable() else f"⟨U+{ord(one):04X}⟩" for one in line)
    if len(line) <= limit:
        return line
    end = limit // 3
    return f"{line[: limit - end - 3]} … {line[-end:]}"


def json_text(value: object) -> str:
    """Write a value as JSON that reads back as it is; what no terminal shows is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    shown = (one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)
    return "".join(shown)


def many(count: int, one: str) -> str:
    """Write a number and what it counts: ``judged query was`` becomes ``judged queries were``."""
    return f"{count} {one if count == 1 else _plural(one)}"


def counted(count: int, one: str) -> str:
    """Write the same with a comma between thousands."""
    return f"{count:,} {one if count == 1 else _plural(one)}"


@cache
def _plural(one: str) -> str:
    before, _, last = one.rpartition(" ")
    if last in VERBS:
        return f"{_plural(before)} {VERBS[last]}" if before else VERBS[last]
    if last.endswith("y") and last[-2] not in "aeiou":
        return f"{one[:-1]}ies"
    return f"{one}es" if last.endswith(("s", "x", "ch", "sh")) else f"{one}s"
