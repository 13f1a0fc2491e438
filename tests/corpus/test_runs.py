"""Runs as Parquet: what is written is read, and the same run gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from harness.core.engine import Hit
from harness.core.errors import BadFile
from harness.core.run import Row, Run, Status
from harness.corpus import runs
from harness.corpus.runs import COLUMNS, read_run, write_run
from tests.make.rows import rows

RUN = Run.of(
    "arm é",
    [
        Row("q2", Status.ANSWERED, (Hit("b", 1.0, -9.5), Hit("a", 1.0, -9.5)), "me", duplicates=2),
        Row("q1", Status.ANSWERED, (), "me"),
        Row("q3", Status.FAILED, error="ValueError: 東京"),
        Row("q4", Status.TIMED_OUT, error="late"),
        Row("q5", Status.NOT_ASKED),
    ],
)
SLOW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def same(left: Run, right: Run) -> bool:
    arrays = ("offsets", "docs", "score", "raw_score", "status", "duplicates")
    return all(
        (getattr(left, name) == getattr(right, name)).all()
        and getattr(left, name).dtype == getattr(right, name).dtype
        and getattr(left, name).shape == getattr(right, name).shape
        for name in arrays
    ) and all(
        getattr(left, name) == getattr(right, name)
        for name in ("arm", "query_ids", "vocabulary", "served_by", "errors")
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_run(RUN, tmp_path / "run.parquet")
    read = read_run(tmp_path / "run.parquet")
    assert same(read, RUN)
    assert list(read.rows()) == list(RUN.rows())


def test_retries_are_kept_and_a_run_without_any_has_the_bytes_of_before(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    write_run(replace(RUN, retries=3, rate_limited=2), path)
    assert (read_run(path).retries, read_run(path).rate_limited) == (3, 2)
    write_run(RUN, path)
    assert b"retries" not in path.read_bytes()
    pq.write_table(pq.read_table(path).replace_schema_metadata({"arm": "a", "retries": "-1"}), path)
    with pytest.raises(BadFile, match=r"says '-1' retries.*Run again: harness stage replay"):
        read_run(path)


@pytest.mark.parametrize(
    "given_rows",
    [
        [],
        [Row("q", Status.ANSWERED)],
        [Row("q", Status.FAILED, error="no"), Row("r", Status.TIMED_OUT)],
        [Row("q", Status.ANSWERED), Row("r", Status.ANSWERED, (Hit("a", 0.0, 0.0),))],
    ],
)
def test_runs_of_nothing_or_little(tmp_path: Path, given_rows: Sequence[Row]) -> None:
    run = Run.of("arm", given_rows)
    write_run(run, tmp_path / "run.parquet")
    assert same(read_run(tmp_path / "run.parquet"), run)


@SLOW
@given(given_rows=rows())
def test_any_run_goes_in_and_out_with_the_same_bytes(
    tmp_path: Path, given_rows: Sequence[Row]
) -> None:
    run = Run.of("arm", given_rows)
    one, two = tmp_path / "one", tmp_path / "two"
    write_run(run, one)
    read = read_run(one)
    assert same(read, run)
    write_run(read, two)
    assert two.read_bytes() == one.read_bytes()


def test_more_queries_than_a_row_group_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PARTITION", 2)
    hits = [tuple(Hit(f"d{(at + j) % 7}", 1.0, float(j)) for j in range(at)) for at in range(7)]
    run = Run.of("arm", [Row(f"q{at}", Status.ANSWERED, hits[at]) for at in range(7)])
    write_run(run, tmp_path / "run.parquet")
    assert pq.ParquetFile(tmp_path / "run.parquet").num_row_groups == 4
    assert same(read_run(tmp_path / "run.parquet"), run)


def test_more_ids_than_a_dictionary_page_holds(tmp_path: Path) -> None:
    ids = [f"{at:05}{'x' * 80}" for at in range(20_000)]
    shown = tuple(Hit(doc_id, 1.0, 1.0) for doc_id in ids[::-1])
    run = Run.of("arm", [Row("q", Status.ANSWERED, shown)])
    write_run(run, tmp_path / "run.parquet")
    assert same(read_run(tmp_path / "run.parquet"), run)


def refused(path: Path, why: str) -> None:
    with pytest.raises(BadFile, match=why) as told:
        read_run(path)
    assert told.value.path == path
    assert "harness stage replay" in told.value.hint


def test_no_file(tmp_path: Path) -> None:
    refused(tmp_path / "run.parquet", "no such file")


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_file_cut_short(tmp_path: Path, share: float) -> None:
    path = tmp_path / "run.parquet"
    write_run(RUN, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    refused(path, "not a run")


def test_damage_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    write_run(RUN, path)
    whole = bytearray(path.read_bytes())
    whole[4:60] = b"\xff" * 56
    path.write_bytes(bytes(whole))
    refused(path, "not a run")


def test_garbage(tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    path.write_bytes(b"q1 Q0 d1 1 9.5 arm\n" * 50)
    refused(path, "not a run")


def without_a_column(table: pa.Table) -> pa.Table:
    return table.drop_columns(["served_by"])


def without_its_arm(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata(None)


def another_status(table: pa.Table) -> pa.Table:
    at = table.schema.get_field_index("status")
    return table.set_column(at, COLUMNS.field("status"), pa.array(["green"] * len(table)))


def no_query_id(table: pa.Table) -> pa.Table:
    return table.set_column(0, COLUMNS.field(0), pa.nulls(len(table), pa.string()))


def numbers_for_ids(table: pa.Table) -> pa.Table:
    return table.set_column(0, "query_id", pa.array(range(len(table))))


def documents_as_they_came(table: pa.Table) -> pa.Table:
    turned = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["b", "a"]))
    lists = pa.ListArray.from_arrays(table.column("docs").combine_chunks().offsets, turned)
    return table.set_column(2, COLUMNS.field("docs"), lists)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (without_a_column, "lacks .*served_by"),
        (without_its_arm, "lacks the name of its arm"),
        (another_status, "unknown status .*green"),
        (no_query_id, "query_id is not given"),
        (documents_as_they_came, "not in byte order"),
        (numbers_for_ids, "query_id is int64 instead of string"),
    ],
)
def test_other_tables_are_no_runs(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], why: str
) -> None:
    path = tmp_path / "run.parquet"
    write_run(RUN, path)
    pq.write_table(change(pq.read_table(path)), path)
    refused(path, why)


def test_a_run_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(where: Path, _: bytes) -> int:
        where.write_text("PAR1")
        raise KeyboardInterrupt

    path = tmp_path / "run.parquet"
    write_run(RUN, path)
    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(KeyboardInterrupt):
        write_run(Run.of("other", []), path)
    assert same(read_run(path), RUN)
    assert [found.name for found in tmp_path.iterdir()] == ["run.parquet"]
