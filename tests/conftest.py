"""A small project that every stage ran on once, copies of it to spoil, and how tests came out."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # on matrices as small as ours, more only wait

import pytest
from hypothesis import settings

from tests import toy
from tests.docs import outcomes
from tests.toy import Toy


def pytest_configure(config: pytest.Config) -> None:
    """Record how each test comes out, for the table of promises; no test is about time."""
    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")
    config.pluginmanager.register(outcomes.Outcomes(), outcomes.NAME)


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Run the stages up to the race once; a test may read it and must not write to it."""
    made = toy.make(tmp_path_factory.mktemp("measured") / "project")
    made.measure(timed=True)
    return made


@pytest.fixture
def project(measured: Toy, tmp_path: Path) -> Toy:
    """Copy it, for a test to do with as it likes."""
    return measured.copied(tmp_path / "project")
