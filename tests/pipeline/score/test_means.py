"""Means between stages."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.core.errors import BadFile
from harness.core.scores import Estimate
from harness.corpus.runs import MEANS, SLICE_MEANS

NUMBER = st.floats(-1, 1, allow_nan=False)
DRAWN = st.dictionaries(
    st.text(min_size=1),
    st.dictionaries(
        st.text(min_size=1), st.builds(Estimate, NUMBER, NUMBER, NUMBER, st.integers(0))
    ),
)


@given(DRAWN)
def test_what_is_written_is_read(means: dict[str, dict[str, Estimate]]) -> None:
    with TemporaryDirectory() as folder:
        MEANS.write(Path(folder, "means"), means)
        SLICE_MEANS.write(Path(folder, "slices"), {"short": means})
        assert MEANS.read(Path(folder, "means")) == means
        assert SLICE_MEANS.read(Path(folder, "slices")) == {"short": means}


def test_a_mean_is_written_with_its_interval(tmp_path: Path) -> None:
    MEANS.write(tmp_path / "means", {"fts5": {"RR@10": Estimate(0.5, 0.25, 0.75, 3)}})
    row = {"mean": 0.5, "low": 0.25, "high": 0.75, "queries": 3}
    assert json.loads((tmp_path / "means").read_text()) == {"fts5": {"RR@10": row}}


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": {"m": {"mean": 1}}}', '{"a": {"m": null}}'])
def test_what_holds_no_means_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "means.json"
    path.write_text(text)
    with pytest.raises(BadFile, match=r"means\.json:.*Make it anew"):
        MEANS.read(path)
    path.write_text(f'{{"s": {text}}}')
    with pytest.raises(BadFile, match=r"means\.json:.*Make it anew"):
        SLICE_MEANS.read(path)
