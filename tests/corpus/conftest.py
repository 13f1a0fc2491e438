"""Files to read: written on the spot, and real ones where they are at hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "datasets"

Written = Callable[[str], Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(text: str) -> Path:
        path = tmp_path / "file"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return path

    return write


@pytest.fixture
def adi() -> Path:
    if not SHARED.exists():
        pytest.skip("no collections beside the project")
    return SHARED / "adi"
