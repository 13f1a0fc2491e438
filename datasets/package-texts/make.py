"""Make the data set ``package-texts``: ``harness prepare`` calls ``make``."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.with_name("python-docs"))]

from package_texts import PackageTexts, Texts, read

from harness.corpus.card import DatasetCard


def make(card: DatasetCard) -> PackageTexts:
    """Return the texts of the card's packages, as its table ``[make]`` describes."""
    return read(card.packages, Texts.model_validate(card.make))
