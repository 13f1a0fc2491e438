"""Every arm of the folder, built once and open for the whole session."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from harness.check.subject import DOCUMENTS
from harness.core.engine import Manifest, Searcher
from harness_engines import registry as arms
from harness_engines.registry import Arm
from tests import once_a_process

collect_ignore = [] if find_spec("psycopg") else ["test_postgres.py"]
"""An environment without the extra ``postgres`` is left alone."""


@dataclass(frozen=True)
class Standing:
    """An arm with its index built and open."""

    arm: Arm
    built: Manifest
    index: Path
    searcher: Searcher


@pytest.fixture(scope="session", params=arms.names())
def standing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Standing]:
    """Build and open it; models read a text once, not once an arm."""
    folder = tmp_path_factory.mktemp(request.param)
    index = folder / "index"
    index.mkdir()
    with once_a_process.models(), ExitStack() as opened:
        arm = arms.load(request.param, folder / "cache")
        built = arm.engine.build(DOCUMENTS, index)
        yield Standing(arm, built, index, opened.enter_context(arm.engine.open(index)))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    return folder
