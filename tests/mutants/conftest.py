"""A measured project in which a fault is planted."""

from pathlib import Path

import pytest

from tests.make.toy import Toy


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Try the list of faults under ``--all`` alone: it takes minutes."""
    return True if collection_path.name == "test_all.py" and not config.getoption("--all") else None


@pytest.fixture
def planted(project: Toy) -> Toy:
    """Judge a measured project without a clock; a fault is planted next."""
    project.untimed()
    return project
