"""The server that forks commands, and the projects in which they are typed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.pipeline.prepare import prepare
from tests.crash.crashing import Crashing, serving
from tests.make import toy
from tests.make.toy import NAME, Toy


@pytest.fixture(scope="package")
def crashing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crashing]:
    """Start it once: it takes seconds to import everything."""
    with serving(tmp_path_factory.mktemp("crash")) as found:
        yield found


@pytest.fixture(scope="package")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Import and prepare the data, and no more."""
    made = toy.make(tmp_path_factory.mktemp("prepared") / "project")
    prepare(made.root / "datasets" / NAME, made.root / "qrels" / NAME, made.layout.data)
    return made


@pytest.fixture
def template(request: pytest.FixtureRequest, prepared: Toy, tmp_path: Path) -> Toy:
    """Copy what a command needs: the data, or a project whose data are decided on."""
    if not request.param:
        return prepared.copied(tmp_path / "template")
    made: Toy = request.getfixturevalue("measured").copied(tmp_path / "template")
    made.untimed()
    made.decide()
    return made
