"""Joined tokens such as ``br-2tnl``, ``read_csv`` or ``src/app.py``, kept whole.

Text fields split at every sign that is no letter or digit; a field beside them holds these tokens
whole, so that a message about ``br-2tnl`` outranks one with ``br`` and ``2tnl`` (decision 1 of the
agent mail stack).
"""

from __future__ import annotations

import re

LONGEST_BYTES = 255
"""Longer tokens are no identifiers; the text fields drop their parts at the same length."""

_JOINED = re.compile(r"(?<![^\W_])[^\W_]++(?:[-_./]++[^\W_]++)++")
"""Begins where a word begins and never goes back, so that a megabyte takes no longer than it is."""


def identifiers(text: str) -> tuple[str, ...]:
    """Find every token joined by hyphens, underscores, dots or slashes, lower-cased.

    They come in the order of the text, as often as they occur. A token begins and ends with a
    letter or digit: ``./run.py`` gives ``run.py``.
    """
    found = (match[0].lower() for match in _JOINED.finditer(text))
    return tuple(token for token in found if len(token.encode()) <= LONGEST_BYTES)
