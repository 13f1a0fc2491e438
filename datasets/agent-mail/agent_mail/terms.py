"""Words that carry meaning, for making queries and for measuring what they share."""

import re

from agent_mail.lexicon import FOLDER

WORD = re.compile(r"\w+")
UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]+")
STOP = frozenset((FOLDER / "stop.txt").read_text(encoding="utf-8").split())


def terms(text: str) -> list[str]:
    """Words in lower case without stop words, in order; text without spaces as pairs of signs."""
    spaced = UNSPACED.sub(lambda run: f" {' '.join(_pairs(run[0]))} ", text)
    return [word for word in WORD.findall(spaced.casefold()) if word not in STOP]


def _pairs(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]
