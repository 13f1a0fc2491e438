"""Stages read a model once, and write pages whose pictures are empty."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def quick(read_once: None, none_drawn: None) -> None:
    """Read a model once for all stages, and write empty pictures on pages."""
