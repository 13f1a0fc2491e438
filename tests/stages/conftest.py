"""Stages read a model once, and write pages whose pictures are empty."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def quick(read_once: None, undrawn: None) -> None:
    """Load a model once for all stages, and write empty pictures on their pages."""
