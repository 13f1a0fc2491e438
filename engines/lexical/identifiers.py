"""Names of things in a text: ``br-2tnl``, ``read_csv``, ``src/app.py``, the commit ``9428bc6``.

Text fields split at every sign that is not a letter or digit. A field beside them holds joined
tokens whole, so that a message about ``br-2tnl`` outranks one with ``br`` and ``2tnl`` (decision 1
of the agent mail stack). A long word with a digit in it, such as a commit, stands there too.
Nothing splits it, but it names one thing, and counts as much as a name with a hyphen does.
"""

from __future__ import annotations

import re
from itertools import filterfalse

LONGEST_BYTES = 255
"""Longer tokens are not identifiers; the text fields drop their parts at the same length."""

SHORTEST_WORD = 7
"""ASCII letters and digits, as many as Git shows of a commit; ``2nd`` and ``10ms`` name nothing."""

_NAME = re.compile(r"[^\W_]++(?:[-_./]++[^\W_]++)*+")
"""A word, or words joined; it never goes back, so a megabyte takes no longer than it is."""


def identifiers(text: str) -> tuple[str, ...]:
    """Find every joined token, and every long word with a digit in it, lower-cased.

    A joined token holds hyphens, underscores, dots or slashes between its words. Names come in the
    order of the text, as often as they occur, and begin and end with a letter or digit:
    ``./run.py`` gives ``run.py``.
    """
    told = filterfalse(str.isalpha, _NAME.findall(text))
    found = [name.lower() for name in told if _names(name)]
    return tuple(token for token in found if len(token.encode()) <= LONGEST_BYTES)


def _names(word: str) -> bool:
    """Tell of a word that is not of letters alone whether it is joined, or long and of ASCII."""
    return not word.isalnum() or (len(word) >= SHORTEST_WORD and word.isascii())
