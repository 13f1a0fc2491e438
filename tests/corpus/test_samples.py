"""``harness.corpus.judgements``: a judged sample as a file."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.core.evidence import Sample
from harness.corpus import judgements

SAMPLE = Sample("old", "new", "P(rel=2)@5", 7, 0.25, {"q2": {"b": 1, "a": 0}}, "ada")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    judgements.write_samples(tmp_path, SAMPLE)
    (path,) = tmp_path.iterdir()
    assert path.name == judgements.name_of(SAMPLE)
    assert asdict(judgements.read_samples(path)) == asdict(SAMPLE)


def test_one_file_for_two_arms_and_a_measure(tmp_path: Path) -> None:
    for one in (SAMPLE, replace(SAMPLE, rate=0.5), replace(SAMPLE, measure="nDCG@10")):
        judgements.write_samples(tmp_path, one)
    assert sorted(judgements.read_samples(path).rate for path in tmp_path.iterdir()) == [0.25, 0.5]


@pytest.mark.parametrize(
    ("old", "new"),
    [('"rate": 0.25', '"rate": 0.0'), ('"by"', '"who"'), ("{", "["), ('"a": 0', '"a": 0.5')],
)
def test_a_damaged_file_says_what_to_do(tmp_path: Path, old: str, new: str) -> None:
    judgements.write_samples(tmp_path, SAMPLE)
    path = tmp_path / judgements.name_of(SAMPLE)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(BadFile, match="Take the sample in again"):
        judgements.read_samples(path)
