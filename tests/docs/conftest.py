"""A collection made by hand, and what ``harness run`` makes of it."""

from pathlib import Path

import pytest

from tests import once_a_process
from tests.docs.pages import ROOT, Shell
from tests.docs.world import World, make
from tests.make import write_beir
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
    judged = ((f"q-{colour}-{shape}", f"{colour}-{shape}", 1) for shape, colour in named)
    write_beir(folder, documents, queries, judged)


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
