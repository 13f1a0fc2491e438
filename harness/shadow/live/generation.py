"""Which state of its index an arm answers from."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from harness.core.engine import Manifest, Searcher

DIGITS = 16
"""Hexadecimal digits of a fingerprint that a generation starts with."""


@runtime_checkable
class TellsGeneration(Protocol):
    """A searcher whose index may change while it is open."""

    @property
    def generation(self) -> int | str | None:
        """A value that is another one after every change; cheap, and readable on any thread.

        None where it is not known yet, the empty text where it never will be.
        """
        ...


class Generation:
    """The generation of one open searcher, as text: of its manifest, and of its own number.

    A searcher that tells no generation has the one of its manifest, so that only an index that
    was replaced is seen to move. A manifest is digested once.
    """

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self._tells = searcher if isinstance(searcher, TellsGeneration) else None
        self._manifest: Manifest | None = None
        self._digits = ""

    def __call__(self) -> str:
        """Read it now: ``FINGERPRINT`` or ``FINGERPRINT:NUMBER``; empty where not known yet."""
        manifest = self._searcher.manifest
        if manifest is not self._manifest:
            self._digits = manifest.fingerprint[:DIGITS]
            self._manifest = manifest
        if self._tells is None:
            return self._digits
        return stated(self._digits, self._tells.generation)


def stated(digits: str, number: int | str | None) -> str:
    """Write the generation of an index whose fingerprint starts with ``digits``."""
    if number is None:
        return ""
    return digits if number == "" else f"{digits}:{number}"


def answers_for(generation: str, served_by: str) -> bool:
    """Whether the fingerprint ``served_by`` is of the index that ``generation`` is of."""
    return served_by[:DIGITS] == generation[:DIGITS]
