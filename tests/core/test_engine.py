"""A manifest's fingerprint is its identity."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.engine import Answer, Hit, Manifest

MANIFEST = Manifest("sqlite-fts5", "3.40.1", 2, "c0", "5e")


def test_the_fingerprint_is_the_same_from_day_to_day() -> None:
    assert MANIFEST.fingerprint == (
        "9d12318b9713fba50f6cabf67d454dc21e8bcaacd659155552d1e8290c65c803"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"engine": "tantivy"},
        {"version": "3.40.2"},
        {"documents": 3},
        {"corpus_sha256": "c1"},
        {"settings_sha256": "5f"},
    ],
)
def test_every_part_of_a_manifest_counts(changed: dict[str, str]) -> None:
    assert replace(MANIFEST, **changed).fingerprint != MANIFEST.fingerprint  # type: ignore[arg-type]  # one at a time


def test_answers_are_values() -> None:
    one = Answer((Hit("a", 1.0, 2.0),), "me")
    assert one == Answer((Hit("a", 1.0, 2.0),), "me")
    assert hash(one) == hash(Answer((Hit("a", 1.0, 2.0),), "me"))
    assert one != Answer((Hit("a", 1.0, 2.0),), "you")
