"""A small collection for the tests of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engines.stacks.documents import collection
from engines.stacks.documents.collection import Collection
from engines.stacks.documents.formats import Page, Source, of_document
from engines.stacks.documents.library import Settings
from harness.stages.contract.subject import DOCUMENTS

PRO = {
    "tier": "pro",
    "embedder": "all-MiniLM-L6-v2",
    "sparse": "splade-tiny",
    "max_tokens": 64,
    "fusion": "specification",
}
NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
REPORT = Source(
    "reports/q3.pdf",
    "q3.pdf",
    "/originals/q3.pdf",
    (
        Page(1, "Customer retention rose to 94 per cent.\n\nThe board of Ocean Tide Trust agreed."),
        Page(2, "Churn fell after quarterly reviews with customers of Ocean Tide Trust."),
    ),
)
SOURCES = (*(of_document(document) for document in DOCUMENTS), REPORT)


def settings(**changed: Any) -> Settings:  # noqa: ANN401  whatever a setting takes
    return Settings.model_validate({**PRO, **changed})


@contextmanager
def built(folder: Path, given: Settings, cache: Path) -> Iterator[Collection]:
    """Build and open the small collection."""
    folder.mkdir(parents=True)
    collection.build(SOURCES, folder, given, cache, lambda: NOON)
    with collection.opened(folder, given, "Small") as opened:
        yield opened
