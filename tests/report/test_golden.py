"""What pages, Markdown and terminals show, apart from how."""

from __future__ import annotations

import json

import pytest

from harness.report.doc import to_json
from tests.report.golden import DOCUMENTS, FOLDER, digests

pytestmark = [pytest.mark.usefixtures("undrawn"), pytest.mark.slow]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_says_what_it_said(name: str) -> None:
    kept = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert to_json(DOCUMENTS[name]()) + "\n" == kept, "python -m tests.report.golden, and look"


def test_what_is_too_large_to_keep_has_the_digest_that_it_had() -> None:
    """Explorer, report.md, decision.json and junit.xml."""
    assert digests() == json.loads((FOLDER / "digests.json").read_text(encoding="utf-8"))
