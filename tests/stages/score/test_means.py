"""Means between stages."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import BadFile
from harness.core.files import write_json
from harness.core.scores import Estimate
from harness.stages.score import as_json, from_json, read_means, read_slices

NUMBER = st.floats(-1, 1, allow_nan=False)
MEANS = st.dictionaries(
    st.text(min_size=1),
    st.dictionaries(
        st.text(min_size=1), st.builds(Estimate, NUMBER, NUMBER, NUMBER, st.integers(0))
    ),
)


@given(MEANS)
def test_what_is_written_is_read(means: dict[str, dict[str, Estimate]]) -> None:
    assert from_json(as_json(means)) == means


def test_files_are_read(tmp_path: Path) -> None:
    means = {"fts5": {"RR@10": Estimate(0.5, 0.25, 0.75, 3)}}
    write_json(tmp_path / "means", as_json(means))
    write_json(tmp_path / "slices", {"short": as_json(means)})
    assert read_means(tmp_path / "means") == means
    assert read_slices(tmp_path / "slices") == {"short": means}


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": {"m": {"mean": 1}}}', '{"a": {"m": null}}'])
def test_what_holds_no_means_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "means.json"
    path.write_text(text)
    with pytest.raises(BadFile, match=r"means\.json: no means"):
        read_means(path)
    path.write_text(f'{{"s": {text}}}')
    with pytest.raises(BadFile, match=r"means\.json: no means by slice"):
        read_slices(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no means"):
        read_means(tmp_path / "none.json")
