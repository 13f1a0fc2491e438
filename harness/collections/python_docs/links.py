"""What a name under "See Also" stands for, in the eyes of the one who reads it there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.collections.python_docs.harvest import Entry, Harvest

ABBREVIATIONS = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "mpl": "matplotlib"}


class Links:
    """Resolves names to the qualified names of a harvest."""

    def __init__(self, found: Harvest) -> None:
        self._aliases: Mapping[str, str] = found.aliases
        self._by_tail = _by_tail(found.aliases)

    def of(self, entry: Entry) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names that an entry's "See Also" leads to, and names there that lead nowhere.

        A name is looked for as it stands (``np.`` and its like written out), then in the
        class, the module and the packages around the entry, from the inside out. A name with a
        leading dot, or found in none of these, is looked for by its end, if that is the end of one
        object only.
        """
        led: dict[str, None] = {}
        lost: list[str] = []
        for written in entry.docstring.see_also:
            target = self._find(entry, written)
            if target is None:
                lost.append(written)
            elif target != entry.name:
                led[target] = None
        return tuple(led), tuple(lost)

    def _find(self, entry: Entry, written: str) -> str | None:
        name = written.lstrip(".")
        first, dot, rest = name.partition(".")
        full = f"{ABBREVIATIONS.get(first, first)}{dot}{rest}"
        if full in self._aliases:
            return self._aliases[full]
        around = entry.name.split(".")[:-1]
        for depth in range(len(around), 0, -1):
            tried = ".".join([*around[:depth], name])
            if tried in self._aliases:
                return self._aliases[tried]
        ends = {t for t in self._by_tail.get(name, ()) if _package(t) == _package(entry.name)}
        return next(iter(ends)) if len(ends) == 1 else None


def _package(name: str) -> str:
    return name.partition(".")[0]


def _by_tail(aliases: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for alias, name in aliases.items():
        for tail in _tails(alias):
            found.setdefault(tail, set()).add(name)
    return {tail: frozenset(names) for tail, names in found.items()}


def _tails(name: str) -> Iterable[str]:
    while "." in name:
        name = name.partition(".")[2]
        yield name
