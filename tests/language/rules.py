"""The words that readers are spared, each with the words to write, and the length of a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.language.gathered import Text

MOST = 30
"""Words of a sentence."""
BANNED = {
    r"nobody": "name who it is, or write: no one, none, not reported",
    r"there (?:is|are|was|were) no": "missing, absent, or name what is missing",
    r"(?<!there )(?:is|are|was|were) no(?! (?:longer|more|less|worse|better)\b)": (
        "is not a, has no, missing"
    ),
    r"no \w+ there (?:is|are|was|were)": "put the subject first: the step has no gate",
    r"(?<!there )(?:is|are|was|were) none": "none, not reported, missing",
    r"questions?": "query, queries",
    r"(?:is|are|was|were|be|been) asked": "is queried, was requested",
    r"asked (?:again|twice)": "repeated, an A/A run",
    r"(?<!migrate )mend(?:s|ed|ing)?": "fix",
    r"cure[sd]?": "fix, remedy, hint",
    r"h[eo]lds? (?:it |them )?against": "compare with, check against",
    r"(?:is|are|was|were|be) held (?:to|by)": "compared with, checked against",
    r"bears? (?:load|many|up)": "open-loop load test, offered load",
    r"no answer moves": "fixed arrival rate",
    r"twins?": "A/A control",
    r"counts until": "valid until",
    r"promoted wrongly": "false-promotion rate",
    r"with a chance of": "with probability, at rate",
    r"(?:usual|slow) answers": "median latency, p95 latency",
    r"onlookers?": "observer",
    r"in its shadow": "shadow traffic",
    r"in the way": "blocked by",
    r"(?:make|made|makes|making|do|does|done) (?:it |them )?again": "reproduce, rebuild, repeat",
    r"matter of opinion": "say what is exceeded",
    r"as it must": "say which check passed",
    r"(?:what|that) became of": "name the outcome",
    r"says? no more": "offers no explanation",
    r"other than before": "changes since",
    r"chance is no": "statistically significant",
    r"rungs?": "fallback tier",
    r"hurried": "with a deadline",
    r"admission gates?": "load shedding",
}
"""A phrase as a pattern, in any case, and what to write in its place."""
PATTERNS = {re.compile(rf"\b{phrase}\b", re.IGNORECASE): said for phrase, said in BANNED.items()}
END = re.compile(r"(?<=[.!?])[)\"']*\s+|(?<=\.)[)\"']+\s|\n{2,}")
WORD = re.compile(r"\S*\w\S*")


@dataclass(frozen=True)
class Finding:
    """A sentence that breaks a rule: the text that holds it, and what to do."""

    text: Text
    sentence: str
    hint: str

    def __str__(self) -> str:
        return f"{self.text.file}:{self.text.line}: {self.sentence!r}\n    {self.hint}"


def findings(text: Text) -> Iterator[Finding]:
    """Yield what breaks a rule in a text, sentence by sentence."""
    for sentence in END.split(text.words):
        plain = " ".join(sentence.split())
        for pattern, said in PATTERNS.items():
            if hit := pattern.search(plain):
                yield Finding(text, plain, f"{hit.group()!r} is banned. Write: {said}")
        if (length := len(WORD.findall(plain))) > MOST:
            yield Finding(text, plain, f"{length} words, {MOST} are allowed. Split the sentence")
