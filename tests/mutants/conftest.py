"""A measured project in which a fault is planted."""

from __future__ import annotations

import pytest

from tests.toy import Toy


@pytest.fixture
def planted(project: Toy) -> Toy:
    """Judge a measured project without a clock; a fault is planted next."""
    project.untimed()
    return project
