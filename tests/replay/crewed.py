"""Arms for crews: values that a new process can be sent, opening something small."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from harness.core.engine import Answer, Hit, Manifest, Searcher
from harness.core.errors import IndexNotReady
from tests.make.arms import FINGERPRINT


class Echo:
    """Answers each text with itself."""

    @property
    def manifest(self) -> Manifest:
        return Manifest("virtual", "1", 1, "c0ffee", "5e77")

    def search(self, text: str, k: int) -> Answer:
        del k
        return Answer((Hit(text, 1.0, 1.0),), FINGERPRINT)


@dataclass(frozen=True)
class Opens:
    """Opens ``Echo``, or comes to grief."""

    trouble: str = ""

    @contextmanager
    def __call__(self) -> Iterator[Searcher]:
        if self.trouble == "no index":
            raise IndexNotReady("toy: no index here. Run: harness stage index")
        if self.trouble == "killed":
            os._exit(9)
        if self.trouble == "fat":
            ballast = bytearray(120_000_000)
            ballast[::4096] = b"x" * len(ballast[::4096])
            yield Echo()
            del ballast
        else:
            yield Echo()
