"""Scores as a table: undefined values keep their reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.errors import BadFile
from harness.core.scores import Scores
from harness.corpus.runs import Key, read_scores, write_scores

Table = dict[Key, dict[str, Scores]]


def scores(measure: str, values: dict[str, float], undefined: dict[str, tuple[str, ...]]) -> Scores:
    return Scores(measure, tuple(values), np.array(list(values.values()), dtype=float), undefined)


TABLE: Table = {
    ("fts5",): {
        "nDCG@10": scores("nDCG@10", {"q2": 0.5, "q1": 1.0}, {"negative_query": ("q3", "q4")}),
        "RR": scores("RR", {"q2": 0.0}, {"failed": ("q1",), "timed_out": ("q5",)}),
    },
    ("dense",): {"RR": scores("RR", {}, {"failed": ("q1", "q2")})},
}


def plain(table: Table) -> dict[Key, dict[str, tuple[str, dict[str, float], object]]]:
    return {
        key: {
            name: (found.measure, dict(found.by_query), found.undefined)
            for name, found in by.items()
        }
        for key, by in table.items()
    }


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_scores(tmp_path / "scores", ["arm"], TABLE)
    read = read_scores(tmp_path / "scores", ["arm"])
    assert plain(read) == plain(TABLE)
    assert read["fts5",]["nDCG@10"].query_ids == ("q2", "q1")
    assert read["dense",]["RR"].mean is None


def test_an_undefined_value_is_null_and_not_a_number(tmp_path: Path) -> None:
    write_scores(tmp_path / "scores", ["arm"], TABLE)
    for row in pq.read_table(tmp_path / "scores").to_pylist():
        assert (row["value"] is None) is (row["undefined"] is not None)


def test_a_key_of_two_names(tmp_path: Path) -> None:
    table: Table = {("fts5", "tantivy"): {"RBO": scores("RBO", {"q": 0.25}, {})}}
    write_scores(tmp_path / "scores", ["control", "candidate"], table)
    assert plain(read_scores(tmp_path / "scores", ["control", "candidate"])) == plain(table)


def test_no_scores(tmp_path: Path) -> None:
    write_scores(tmp_path / "scores", ["arm"], {})
    assert read_scores(tmp_path / "scores", ["arm"]) == {}


def test_the_same_scores_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_scores(tmp_path / name, ["arm"], TABLE)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


words = st.text(st.characters(codec="utf-8"), max_size=3)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.dictionaries(
        words,
        st.tuples(
            st.dictionaries(words, st.floats(0, 1), min_size=1, max_size=4),
            st.dictionaries(words, st.lists(words, min_size=1, max_size=3), max_size=2),
        ),
        max_size=3,
    )
)
def test_any_scores_go_in_and_out(
    tmp_path: Path, drawn: dict[str, tuple[dict[str, float], dict[str, list[str]]]]
) -> None:
    table: Table = {
        ("arm",): {
            name: scores(name, values, {why: tuple(ids) for why, ids in gone.items()})
            for name, (values, gone) in drawn.items()
        }
    }
    write_scores(tmp_path / "scores", ["arm"], table)
    assert plain(read_scores(tmp_path / "scores", ["arm"])) == plain(table if drawn else {})


@pytest.mark.parametrize("damage", [None, b"", b"garbage" * 99])
def test_what_is_no_table_is_refused(tmp_path: Path, damage: bytes | None) -> None:
    if damage is not None:
        (tmp_path / "scores").write_bytes(damage)
    with pytest.raises(BadFile, match=r"no such file|not a score table"):
        read_scores(tmp_path / "scores", ["arm"])


def test_a_table_of_other_columns_is_refused(tmp_path: Path) -> None:
    write_scores(tmp_path / "scores", ["arm"], TABLE)
    with pytest.raises(BadFile, match=r"it lacks \["):
        read_scores(tmp_path / "scores", ["control", "candidate"])
    pq.write_table(pa.table({"arm": ["fts5"]}), tmp_path / "scores")
    with pytest.raises(BadFile, match=r"it lacks \["):
        read_scores(tmp_path / "scores", ["arm"])
