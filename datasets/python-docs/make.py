"""Make the data set ``python-docs``: ``harness prepare`` calls ``make``."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from python_docs import Harvesting, PythonDocs, read

from harness.corpus.card import DatasetCard


def make(card: DatasetCard) -> PythonDocs:
    """Return what the installed packages document, as the card's table ``[make]`` describes."""
    return read(Harvesting.model_validate(card.make))
