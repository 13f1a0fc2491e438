"""The last try of a query that no index answers: texts that contain what was typed, as it is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engines.lexical.normal import Normal, folded
from engines.lexical.typed import Occur, exact_clauses, normalise

LIKE = "like"
"""Names this try in an answer."""


@dataclass(frozen=True, slots=True)
class Like:
    """Looks for every word and phrase of a query in a text, and for what it refuses.

    Parts of words count, in any case and however composed: a piece of a name is found this way.
    """

    wanted: tuple[re.Pattern[str], ...]
    never: tuple[re.Pattern[str], ...]

    @classmethod
    def of(cls, query: str) -> Like:
        """Read a query; one without a letter or digit is looked for as it was typed."""
        clauses = exact_clauses(query)
        if not clauses:
            typed = normalise(query)
            return cls((_pattern(typed),) if typed else (), ())
        refused = tuple(_pattern(one.text) for one in clauses if one.occur is Occur.NOT)
        return cls(tuple(_pattern(c.text) for c in clauses if c.occur is not Occur.NOT), refused)

    def has(self, text: str) -> bool:
        """Tell whether a text contains all that is wanted and nothing that is refused."""
        form = folded(text)
        wanted = bool(self.wanted) and all(one.search(form) for one in self.wanted)
        return wanted and not any(one.search(form) for one in self.never)

    def at(self, text: str) -> int:
        """Give the place of the first thing wanted; 0 where it is not there."""
        if not self.wanted:
            return 0
        normal = Normal.of(text)
        found = self.wanted[0].search(normal.text)
        return normal.span(*found.span())[0] if found else 0


def _pattern(typed: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, folded(typed).split())), re.IGNORECASE)
