"""``harness.corpus.samples``: a judged sample as a file."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.core.evidence import Sample
from harness.corpus import samples

SAMPLE = Sample("old", "new", "P(rel=2)@5", 7, 0.25, {"q2": {"b": 1, "a": 0}}, "ada")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    samples.write(tmp_path, SAMPLE)
    (path,) = tmp_path.iterdir()
    assert path.name == samples.name_of(SAMPLE)
    assert asdict(samples.read(path)) == asdict(SAMPLE)


def test_one_file_for_two_arms_and_a_measure(tmp_path: Path) -> None:
    for one in (SAMPLE, replace(SAMPLE, rate=0.5), replace(SAMPLE, measure="nDCG@10")):
        samples.write(tmp_path, one)
    assert sorted(samples.read(path).rate for path in tmp_path.iterdir()) == [0.25, 0.5]


@pytest.mark.parametrize(
    ("old", "new"),
    [('"rate": 0.25', '"rate": 0.0'), ('"by"', '"who"'), ("{", "["), ('"a": 0', '"a": 0.5')],
)
def test_a_damaged_file_says_what_to_do(tmp_path: Path, old: str, new: str) -> None:
    samples.write(tmp_path, SAMPLE)
    path = tmp_path / samples.name_of(SAMPLE)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(BadFile, match="Take the sample in again"):
        samples.read(path)
