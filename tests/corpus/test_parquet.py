"""One Parquet file as a table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.core.reading import Malformed
from harness.corpus import parquet
from harness.corpus.parquet import row_groups, table_of

TABLE = pa.table(
    {"id": ["a", "b", "c"], "docs": pa.array([["x"], [], ["x", "y"]])}, metadata={"arm": "own"}
)

ANY = pa.schema([])
HOSTILE = [b"\x1c" * 400, b"\x19\xfc\xff\xff\xff\x0f", b"\x1e\x00", b"\x80" * 99]
"""Structs in structs, a list of billions, an unknown type, a number without an end."""


def test_it_is_what_pyarrow_reads(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    for table in (TABLE, TABLE.slice(0, 0), TABLE.select(["docs"])):
        pq.write_table(table, path, row_group_size=2)
        assert table_of(path, ANY).equals(pq.read_table(path), check_metadata=True)


def test_what_is_no_parquet_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    with pytest.raises(FileNotFoundError):
        table_of(path, ANY)
    path.write_bytes(b"PAR1 or not")
    with pytest.raises(Malformed, match="Parquet magic bytes not found"):
        table_of(path, ANY)
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(Malformed, match="no regular file"):
            table_of(other, ANY)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_footer_of_no_end_is_refused(tmp_path: Path, hostile: bytes) -> None:
    path = tmp_path / "one.parquet"
    path.write_bytes(b"PAR1" + hostile + len(hostile).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(Malformed, match="deserialize thrift"):
        table_of(path, ANY)


def test_no_prefix_of_a_footer_is_one(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(TABLE, path)
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    for left in range(0, length, 7):
        cut = whole[-8 - length : -8][:left]
        path.write_bytes(b"PAR1" + cut + len(cut).to_bytes(4, "little") + b"PAR1")
        with pytest.raises(Malformed):
            table_of(path, ANY)


def test_a_column_that_contradicts_its_schema_is_an_error_and_no_crash() -> None:
    """Where pyarrow is asked for such a column, the process ends."""
    path = Path(__file__).parents[1] / "fuzz" / "finds" / "scores" / "levels-of-another-schema"
    with pytest.raises(Malformed, match="histogram size mismatch"):
        table_of(path, pa.schema([]))


def test_a_text_that_stands_there_once_is_not_written_out_a_thousand_times(tmp_path: Path) -> None:
    """Three hundred bytes took five gigabytes and forty seconds."""
    path = tmp_path / "one.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 4_000, pa.int32()), ["x" * 1_000_000])
    for column in (texts, pa.ListArray.from_arrays([0, 4_000], texts)):
        pq.write_table(pa.table({"a": column}), path, compression="zstd", store_schema=False)
        assert path.stat().st_size < 1_000
        before = pa.total_allocated_bytes()
        with pytest.raises(Malformed, match="the texts of a take 4000000000 bytes, more than"):
            table_of(path, ANY)
        with pytest.raises(Malformed, match="the texts of a take"):
            list(row_groups(path, pq.read_schema(path)))
        assert pa.total_allocated_bytes() - before < 16 << 20


def test_values_beyond_the_size_of_their_file_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"a": [0] * 400_000}), path, row_group_size=100_000)
    assert table_of(path, ANY).num_rows == 400_000
    monkeypatch.setattr(parquet, "UNPACKED_ANYWAY", 1_000_000)
    monkeypatch.setattr(parquet, "MAX_UNPACKED", 1)
    with pytest.raises(Malformed, match=r"its values take \d+ bytes, more than 1000000"):
        table_of(path, ANY)
    assert [part.num_rows for part in row_groups(path, pq.read_schema(path))] == [100_000] * 4


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "one.parquet")
    with pytest.raises(Malformed, match=r"it lacks \['none'\]"):
        list(
            row_groups(
                tmp_path / "one.parquet", pa.schema([("id", pa.string()), ("none", pa.int8())])
            )
        )


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (TABLE.drop_columns(["id"]), r"it lacks \['id'\]"),
        (TABLE.set_column(0, "id", pa.array([1, 2, 3])), "id is int64 instead of string"),
        (TABLE.append_column("id", TABLE.column("id")), "it has id twice"),
        (TABLE.set_column(0, "id", pa.array(["a", None, "c"])), "id is not given in every row"),
    ],
)
def test_columns_are_those_that_are_wanted(tmp_path: Path, table: pa.Table, says: str) -> None:
    pq.write_table(table, tmp_path / "one.parquet")
    with pytest.raises(Malformed, match=says):
        table_of(tmp_path / "one.parquet", pa.schema([("id", pa.string())]))


def test_a_column_may_have_gaps_where_that_is_said(tmp_path: Path) -> None:
    gaps = TABLE.set_column(0, "id", pa.array(["a", None, "c"]))
    pq.write_table(gaps, tmp_path / "one.parquet")
    wanted = pa.schema([("id", pa.string())])
    assert table_of(tmp_path / "one.parquet", wanted, ["id"]).equals(gaps)


def test_a_run_is_read_without_what_is_slow_to_import(tmp_path: Path) -> None:
    """Half of what a small command took went into pandas, which nothing here uses."""
    path = tmp_path / "one.parquet"
    pq.write_table(TABLE, path)
    asked = (
        "import sys; from pathlib import Path; import harness.pipeline.evidence;"
        "from harness.corpus.parquet import table_of; import pyarrow as pa;"
        f"table_of(Path({str(path)!r}), pa.schema([]));"
        "print({'pandas', 'scipy.stats', 'matplotlib'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
