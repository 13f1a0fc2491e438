"""Who answers: software, documents and generation, asked before, between and after the queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, NamedTuple

from engines.stacks.http.connection import Connection, Request, connected
from engines.stacks.http.expression import NoMatch, compiled
from engines.stacks.http.failures import NoAnswer
from engines.stacks.http.settings import Probe, Settings
from harness.core.digest import of_json
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.formats import json_of

DIGITS = 16
"""Of a digest that stands for a generation of many values."""
PATIENCE_S = 5.0
"""How long the end waits for a probe that is under way."""


class Identity(NamedTuple):
    """What the probes told; empty and None are not told."""

    version: str
    documents: int | None
    generation: str

    def __str__(self) -> str:
        parts = [f"version {self.version}"] if self.version else []
        parts += [f"{self.documents} documents"] if self.documents is not None else []
        parts += [f"generation {self.generation}"] if self.generation else []
        return ", ".join(parts)


def word(value: object) -> str:
    """Write what a server tells as one short text, always the same for the same value."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    return of_json(value)[:DIGITS]


def asked(to: Connection) -> Identity:
    """Send the probes.

    Raises:
        IndexNotReady: one has no answer, or an expression matches nothing in it.
    """
    told: dict[str, Any] = {}
    for probe in to.settings.probe:
        try:
            body = json_of(probe.body) if probe.body else None
            answer = to.call(Request(probe.method, probe.url, body=body, paced=False)).answer
            told |= _read(probe, answer)
        except (NoAnswer, NoMatch, TimeoutError) as exc:
            raise IndexNotReady(f"the probe does not say who answers: {exc}") from exc
    count = told.get("documents")
    return Identity(word(told.get("version", "")), count, word(told.get("generation", "")))


def _read(probe: Probe, answer: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in ("version", "documents", "generation"):
        text = getattr(probe, key)
        if not text:
            continue
        value = compiled(text)(answer)
        if value in (None, "", [], {}):
            raise IndexNotReady(
                f"{probe.url}: nothing matches {key} = {text!r} of the probe. Correct it"
            )
        if key == "documents" and (isinstance(value, bool) or not isinstance(value, int)):
            raise IndexNotReady(f"{probe.url}: documents = {text!r} is {value!r}, not a count")
        found[key] = value
    return found


class Watch:
    """Compares who answers with who did at the beginning, from time to time."""

    def __init__(self, settings: Settings, began: Identity) -> None:
        self._settings, self._began = settings, began
        self._ended = Event()
        self.moved = ""
        """How the server differs; empty while it does not."""

    def compare(self, to: Connection) -> None:
        """Ask once more.

        Raises:
            IndexNotReady: the answer is missing.
        """
        now = asked(to)
        if now != self._began and not self.moved:
            self.moved = f"the index moved while queries ran: it was {self._began}, it is {now}"

    def run(self) -> None:
        """Ask every so often, over a connection of its own, until the end."""
        with connected(self._settings) as to:
            while not self._ended.wait(self._settings.probe_every_s):
                try:
                    self.compare(to)
                except IndexNotReady:
                    continue  # what cannot answer fails its queries too, and the end asks again

    def end(self) -> None:
        """Let ``run`` return."""
        self._ended.set()


@contextmanager
def watched(to: Connection, began: Identity) -> Iterator[Watch]:
    """Watch who answers while the block runs, and ask a last time after it.

    Raises:
        InvalidArm: another index answered meanwhile, or no one says at the end.
    """
    watch = Watch(to.settings, began)
    thread = Thread(target=watch.run, name="http-probe", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.end()
        thread.join(PATIENCE_S)
    watch.compare(to)
    if watch.moved:
        raise InvalidArm(
            f"{to.settings.url}: {watch.moved}. Nothing is scored."
            " Let indexing end, build again (harness index), and replay"
        )
