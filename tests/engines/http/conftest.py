"""A small local search server that a test tells how to misbehave, and arms that query it."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.make.search_server import Served, serving

collect_ignore_glob = [] if find_spec("jmespath") else ["test_*.py"]
"""The lock has the extra ``http``; an environment of before it is left alone."""


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as running:
        yield running


@pytest.fixture
def arm(served: Served, tmp_path: Path) -> Any:  # noqa: ANN401  a function of changes
    """Write the TOML file of an arm for the server; keywords replace lines, None removes one."""

    def written(**changed: str | None) -> Path:
        path = tmp_path / "mine.toml"
        path.write_text(served.toml(**changed), encoding="utf-8")
        return path

    return written
