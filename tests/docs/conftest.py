"""A collection made by hand, and what ``harness run`` makes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import once_a_process
from tests.docs.pages import ROOT, Shell
from tests.docs.world import World, make
from tests.programs import once

SHAPES = ("ring", "cube", "cone", "disc", "tube", "leaf", "star", "wire")
COLOURS = ("red", "green", "blue", "grey", "black")
OWN = "examples/own_engine/own.toml"


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty documents and forty queries in BEIR layout; each query has one right document.

    What is black is asked for by a joined word, which the example takes for one word.
    """
    return once(tmp_path_factory, "shapes", _shapes)


def _shapes(folder: Path) -> None:
    (folder / "qrels").mkdir(parents=True)
    named = [(shape, colour) for shape in SHAPES for colour in COLOURS]
    documents = (
        {
            "_id": f"{colour}-{shape}",
            "title": f"make_{shape}",
            "text": f"A {shape} that is {colour}" + ", shown at length" * at,
        }
        for at, (shape, colour) in enumerate(named)
    )
    queries = (
        {
            "_id": f"q-{colour}-{shape}",
            "text": f"{colour}{'_' if colour == 'black' else ' '}{shape}",
        }
        for shape, colour in named
    )
    _write(folder / "corpus.jsonl", documents)
    _write(folder / "queries.jsonl", queries)
    judged = "".join(f"q-{colour}-{shape}\t{colour}-{shape}\t1\n" for shape, colour in named)
    (folder / "qrels" / "test.tsv").write_text(judged, encoding="utf-8")


@pytest.fixture(scope="session")
def run(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Hold the example engine against fts5, as the README says."""

    def judged(out: Path) -> None:
        words = ["run", "--dataset", str(collection), "--arms", f"fts5,{OWN}"]
        with once_a_process.pictures(painted=False):
            Shell(ROOT).harness(*words, "--control", "fts5", "--out", str(out))

    return once(tmp_path_factory, "run", judged)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Make the small project once; a page gets a copy."""

    def made(root: Path) -> None:
        with once_a_process.models(), once_a_process.pictures(painted=False):
            make(root)

    return World(once(tmp_path_factory, "world", made))


def _write(path: Path, rows: Iterator[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
