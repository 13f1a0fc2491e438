"""Small arms that behave, and arms that do not; openers of them that a process can be given."""

import ctypes
import os
import pickle
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from harness.core.engine import Answer, Hit, Manifest, Searcher
from harness.core.records import Scalar
from harness.shadow.worker import Open

MANIFEST = Manifest("toy", "1", 5, "corpus", "settings")
OTHER = Manifest("toy", "2", 5, "corpus", "settings")
WORDS = "abcde"
Act = Callable[[str, int], Answer]


def hits(ids: str) -> tuple[Hit, ...]:
    """One hit a letter, each with a lower score."""
    return tuple(Hit(one, 1 - at / 100, 50.0 - at) for at, one in enumerate(ids))


class Arm:
    """Shows the documents whose letter is in the text, unless told to ``act``."""

    def __init__(self, manifest: Manifest = MANIFEST, act: Act | None = None) -> None:
        self.manifest = manifest
        self.generation = 0
        self.act = act
        self.asked: list[tuple[str, int, dict[str, Scalar]]] = []

    def search(self, text: str, k: int) -> Answer:
        return self.search_with(text, k, {})

    def search_with(self, text: str, k: int, params: Mapping[str, Scalar]) -> Answer:
        self.asked.append((text, k, dict(params)))
        if self.act is not None:
            return self.act(text, k)
        return self.answer("".join(one for one in WORDS if one in text)[:k])

    def answer(self, ids: str) -> Answer:
        return Answer(hits(ids), self.manifest.fingerprint)


class Plain:
    """An arm that takes no params and whose index does not change."""

    def __init__(self, ids: str = "ab") -> None:
        self.manifest = OTHER
        self._ids = ids

    def search(self, _: str, k: int) -> Answer:
        return Answer(hits(self._ids[:k]), self.manifest.fingerprint)


def _leak() -> None:
    kept = []
    while True:
        kept.append(b"x" * (16 << 20))
        time.sleep(0.01)


def _raise() -> None:
    raise ValueError("half of a character: \ud800")


WAYS: Mapping[str, Callable[[], object]] = {
    "hang": partial(time.sleep, 30),
    "exit": partial(os._exit, 7),
    "leak": _leak,
    "raise": _raise,
    "garbage": partial(hits, "abcdefghijk"),
    "quit": partial(sys.exit, 3),
    "crash": partial(ctypes.string_at, 0),
    "print": partial(print, end=""),
}


def misbehave(how: str, text: str, k: int) -> Answer:
    """Do what the text says, where it starts with ``how``; else answer."""
    if text.startswith(how):
        done = WAYS[how]()
        if how == "garbage":
            return done  # type: ignore[return-value]
    return Arm(OTHER).search(text, k)


@contextmanager
def opened(how: str) -> Iterator[Searcher]:
    """Open an arm that misbehaves in one way."""
    yield Arm(OTHER, partial(misbehave, how))


@contextmanager
def broken() -> Iterator[Searcher]:
    """Fail to open."""
    raise RuntimeError("there is no index")
    yield Arm()


@contextmanager
def slow_to_open() -> Iterator[Searcher]:
    """Take its time."""
    time.sleep(30)
    yield Arm()


class Runs:
    """What runs a command where it is unpickled."""

    def __init__(self, makes: str) -> None:
        self.makes = makes

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.makes,)


BABBLE: dict[str, Callable[[Path], bytes]] = {
    "a pickle": lambda makes: pickle.dumps(Runs(str(makes))) + b"\n",
    "half a line": lambda _: b'[0, {"status": "answered',
    "two lines": lambda _: b"[0]\n" * 2,
}


@contextmanager
def babbling(how: str, makes: Path) -> Iterator[Searcher]:
    """Write into every socket that the process has: one of them leads to who asks."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  names of numbers
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                os.write(int(name), BABBLE[how](makes))
    yield Plain()


def arm(how: str = "print") -> Open:
    """Return an opener of an arm that misbehaves in one way."""
    return partial(opened, how)


def given(searcher: Searcher) -> Open:
    """Return an opener of an arm that already exists, for threads."""

    @contextmanager
    def give() -> Iterator[Searcher]:
        yield searcher

    return give
