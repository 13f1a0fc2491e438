"""Where the data sets lie."""

from pathlib import Path

import pytest

DATASETS = Path(__file__).resolve().parents[2].parent / "shared" / "datasets"


@pytest.fixture(scope="session")
def datasets() -> Path:
    """Folder of the shared data sets."""
    if not DATASETS.is_dir():
        pytest.skip(f"no data sets in {DATASETS}")
    return DATASETS
