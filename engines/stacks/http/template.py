"""Requests as templates: a query's text, k and params stand in JSON values, never in syntax.

A template is parsed once. Values are put into the parsed tree, which is written as JSON or as a
query string after that, so no text can end its own place.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.core.records import Scalar

PLACE = re.compile(r"\$\{([^}]*)\}")
NAME = re.compile(r"text|k|params\.[A-Za-z_][\w-]*")
QUOTED = ":json"
KNOWN = "Known places: ${text}, ${k} and ${params.NAME}"


class _Absent:
    """A value that the query does not give."""


ABSENT: Final = _Absent()


def places(tree: object) -> frozenset[str]:
    """Name what a template takes: ``text``, ``k``, ``params.NAME``.

    Raises:
        ValueError: a place is unknown, stands in a key, or stands unquoted within a longer text.
    """
    if isinstance(tree, dict):
        for key in tree:
            if PLACE.search(str(key)):
                raise ValueError(f"{key!r} is a key: a place can only be a value")
        return frozenset().union(*map(places, tree.values()))
    if isinstance(tree, list):
        return frozenset().union(*map(places, tree))
    if not isinstance(tree, str):
        return frozenset()
    named = PLACE.findall(tree)
    for one in named:
        name = one.removesuffix(QUOTED)
        if not NAME.fullmatch(name):
            raise ValueError(f"${{{one}}} is unknown. {KNOWN}")
        if PLACE.fullmatch(tree) is None and not one.endswith(QUOTED):
            raise ValueError(
                f"${{{one}}} stands within a longer text, where a query could end its place."
                f" Let it be the whole value, or write ${{{name}{QUOTED}}} for a quoted string"
            )
    return frozenset(one.removesuffix(QUOTED) for one in named)


@dataclass(frozen=True, slots=True)
class Template:
    """A tree of JSON with places in its texts."""

    tree: Mapping[str, Any]

    def filled(self, values: Mapping[str, Scalar]) -> dict[str, Any]:
        """Put values into their places.

        A param that ``values`` does not have takes with it the nearest list item around it, or else
        the member of the outermost table.
        """
        found = {key: _filled(value, values) for key, value in self.tree.items()}
        return {key: value for key, value in found.items() if value is not ABSENT}

    def check_params_apart(self) -> None:
        """Refuse a param without which the text or k would not be sent either.

        Raises:
            ValueError: such a param.
        """
        marks: dict[str, Scalar] = {"text": "", "k": 1}
        sent = {name: _count(self.tree, name) for name in marks}
        for name in marks:
            left = [key for key, value in self.tree.items() if _filled(value, marks) is not ABSENT]
            if sum(_kept(self.tree[key], name, marks) for key in left) != sent[name]:
                raise ValueError(
                    f"a query without one of the params would not send ${{{name}}} either."
                    " Put the param into an item of a list, or into a table of its own"
                )


def _filled(tree: Any, values: Mapping[str, Scalar]) -> Any:  # noqa: ANN401  any JSON
    if isinstance(tree, dict):
        found = {key: _filled(value, values) for key, value in tree.items()}
        return ABSENT if ABSENT in found.values() else found
    if isinstance(tree, list):
        return [one for item in tree if (one := _filled(item, values)) is not ABSENT]
    if not isinstance(tree, str):
        return tree
    named = PLACE.findall(tree)
    if any(values.get(one.removesuffix(QUOTED)) is None for one in named):
        return ABSENT
    if len(named) == 1 and tree == f"${{{named[0]}}}" and not named[0].endswith(QUOTED):
        return values[named[0]]
    return PLACE.sub(lambda one: _quoted(values[one[1].removesuffix(QUOTED)]), tree)


def _quoted(value: Scalar) -> str:
    return json.dumps(str(value) if isinstance(value, str) else value, ensure_ascii=False)


def _count(tree: object, name: str) -> int:
    if isinstance(tree, dict):
        return sum(_count(value, name) for value in tree.values())
    if isinstance(tree, list):
        return sum(_count(value, name) for value in tree)
    found = PLACE.findall(tree) if isinstance(tree, str) else []
    return sum(one.removesuffix(QUOTED) == name for one in found)


def _kept(tree: Any, name: str, values: Mapping[str, Scalar]) -> int:  # noqa: ANN401  any JSON
    """Count the places of ``name`` that are still sent with these values."""
    if _filled(tree, values) is ABSENT:
        return 0
    if isinstance(tree, dict):
        return sum(_kept(value, name, values) for value in tree.values())
    if isinstance(tree, list):
        return sum(_kept(value, name, values) for value in tree)
    return _count(tree, name)
