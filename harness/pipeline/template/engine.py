"""Our search: BM25 over the words of help pages. Change it, run ./ci.sh, and read out/index.html.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
"""  # noqa: INP001  ci.sh names this file by its path; it belongs to no package

import json
import math
import re
from collections import Counter
from pathlib import Path

PAGES = Path(__file__).parent / "data" / "corpus.jsonl"
SATURATION, LENGTH = 1.2, 0.75
"""How soon a word that comes again counts no more, and how much longer pages must repeat it."""


def words(text: str) -> list[str]:
    """Split a text into words; one and many of a thing are the same word."""
    return [word.removesuffix("s") for word in re.findall(r"\w+", text.lower())]


pages = [json.loads(line) for line in PAGES.read_text(encoding="utf-8").splitlines()]
COUNTS = {page["_id"]: Counter(words(f"{page['title']} {page['text']}")) for page in pages}
HAVING = Counter(word for counts in COUNTS.values() for word in counts)
AVERAGE = sum(counts.total() for counts in COUNTS.values()) / len(COUNTS)


def search(text: str, k: int) -> list[tuple[str, float]]:
    """Return ids and scores of the ``k`` best pages, the best first."""
    found = {page: score(counts, set(words(text))) for page, counts in COUNTS.items()}
    best = sorted(found, key=lambda page: (-found[page], page))
    return [(page, found[page]) for page in best[:k] if found[page] > 0]


def score(counts: Counter[str], asked: set[str]) -> float:
    """Compute the score of a page that has these words."""
    norm = SATURATION * (1 - LENGTH + LENGTH * counts.total() / AVERAGE)
    return sum(
        math.log(1 + (len(COUNTS) - HAVING[word] + 0.5) / (HAVING[word] + 0.5))
        * counts[word] * (SATURATION + 1) / (counts[word] + norm)
        for word in sorted(asked & counts.keys())
    )  # fmt: skip
