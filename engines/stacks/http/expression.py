"""JMESPath expressions that say where in an answer something stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

Expression = Callable[[Any], Any]
"""Gives what stands there, or None."""


class NoMatch(ValueError):
    """An expression cannot be evaluated on an answer."""


def compiled(text: str) -> Expression:
    """Compile an expression; the name of a member alone is looked up without an interpreter.

    Raises:
        ValueError: it is not JMESPath.
    """
    try:
        parsed = jmespath.compile(text)
    except JMESPathError as exc:
        said = " ".join(str(exc).split())
        raise ValueError(f"{text!r} is not JMESPath ({said})") from exc
    if parsed.parsed["type"] == "field":
        name = parsed.parsed["value"]
        return lambda tree: tree.get(name) if isinstance(tree, dict) else None

    def search(tree: Any) -> Any:  # noqa: ANN401  any JSON
        try:
            return parsed.search(tree)
        except JMESPathError as exc:
            raise NoMatch(f"{text!r} fails: {' '.join(str(exc).split())}") from exc

    return search
