"""An engine of the thorns: it answers from a table, takes the time it is told to, and misbehaves.

An arm's settings say how: which answers it moves, which queries fail, come late, come twice, or are
another engine's. It thinks by sleeping, so its times are exact in the world of ``golden_world``.
"""  # noqa: INP001  an arm names this file by its path; it belongs to no package

import json
import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher
from harness.core.files import write_text
from harness.core.records import Document
from harness_engines import contract
from harness_engines.contract import StackSettings

FILE = "answers.json"
OPENED = "RECORDED_ENGINE_OPENED"
"""Variable of the environment: how often one was opened, for no two take the same time."""


class Settings(StackSettings):
    """How it answers; every so many queries fail, come late and so on, and 0 is none."""

    answers: str
    think_ms: float
    swaps: int
    seed: int
    fails: int = 0
    late: int = 0
    doubled: int = 0
    foreign: int = 0
    empty: int = 0


class Recorded(NamedTuple):
    """Builds and opens."""

    settings: Settings

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        def fill(passing: Iterable[Document]) -> None:
            table = json.loads(Path(self.settings.answers).read_text("utf-8"))
            whole = {"table": table, "documents": [one.doc_id for one in passing]}
            write_text(index / FILE, json.dumps(whole))

        known = {**self.settings.model_dump(), "answers": ""}
        return contract.record(
            index, documents, fill, engine="recorded", version="1", settings=known
        )

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        made = contract.read(index)
        whole = json.loads((index / FILE).read_text("utf-8"))
        opened = os.environ[OPENED] = str(int(os.environ.get(OPENED, "0")) + 1)
        yield Opened(made, self.settings, whole["table"], whole["documents"], opened)


class Opened(NamedTuple):
    """The open table."""

    manifest: Manifest
    settings: Settings
    table: Mapping[str, list[str]]
    documents: list[str]
    opened: str

    def search(self, text: str, k: int) -> Answer:
        mine, of = self.settings, random.Random(f"{text} {self.settings.seed}")
        number = of.randrange(1, 10_000)

        def struck(every: int) -> bool:
            return bool(every) and number % every == 0

        slow = 20.0 if number % 29 == 0 else 1.0
        mood = 1 + 0.5 * random.Random(f"{text} {mine.seed} {self.opened}").random()
        time.sleep(mine.think_ms * slow * mood / 1e3)
        if struck(mine.fails):
            raise ValueError(f"no answer to {text[:20]}")
        if struck(mine.late):
            time.sleep(60)
        found = list(self.table.get(text) or of.sample(self.documents, 60))
        for _ in range(mine.swaps):
            at = of.randrange(min(25, len(found) - 1))
            found[at], found[at + 1] = found[at + 1], found[at]
        if struck(mine.doubled):
            found[4] = found[1]
        if struck(mine.empty):
            found = []
        by = "c0ffee" * 8 if struck(mine.foreign) else self.manifest.fingerprint
        hits = (
            Hit(one, 1 / (at // 2 + 1), float(90 - at // 2)) for at, one in enumerate(found[:k])
        )
        return Answer(tuple(hits), by)


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:  # noqa: ARG001  keeps nothing
    """Make the engine from the table ``[settings]`` of its arm."""
    return Recorded(Settings.model_validate(settings))
