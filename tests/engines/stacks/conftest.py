"""Stacks read with models once in a process."""

import pytest


@pytest.fixture(autouse=True)
def quick(read_once: None) -> None:
    """Load a model, and let it read a text, once for all tests of stacks."""
