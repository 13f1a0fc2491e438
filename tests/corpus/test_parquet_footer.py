"""What the footer of a Parquet file says of its columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.core.reading import Malformed
from harness.corpus.parquet import column_sizes, table_of

TABLE = pa.table({
    "id": [f"d{at}" for at in range(5_000)],
    "score": [at / 7 for at in range(5_000)],
    "seen": [at % 3 == 0 for at in range(5_000)],
    "docs": [[f"x{at}"] * (at % 4) for at in range(5_000)],
})
HOSTILE = [b"\x1c" * 400, b"\x19\xfc\xff\xff\xff\x0f", b"\x1e\x00", b"\x80" * 99]
"""Structs in structs, a list of billions, an unknown type, a number without an end."""


@pytest.mark.parametrize("group", [300, 5_000])
@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_sizes_are_what_pyarrow_says(tmp_path: Path, group: int, compression: str) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(
        TABLE.replace_schema_metadata({"about": "é" * 3_000}),
        path,
        row_group_size=group,
        compression=compression,
        store_decimal_as_integer=True,
        sorting_columns=[pq.SortingColumn(0)],
    )
    about = pq.read_metadata(path)
    columns = [
        [about.row_group(at).column(of) for of in range(about.num_columns)]
        for at in range(about.num_row_groups)
    ]
    with path.open("rb") as file:
        file.seek(3)
        found = column_sizes(file)
        assert file.tell() == 3
    assert found == [[(of.num_values, of.total_uncompressed_size) for of in row] for row in columns]


def test_no_prefix_of_a_footer_is_one(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(TABLE.slice(0, 4), path)
    whole = path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    for left in range(0, length, 7):
        cut = whole[-8 - length : -8][:left]
        path.write_bytes(b"PAR1" + cut + len(cut).to_bytes(4, "little") + b"PAR1")
        with path.open("rb") as file, pytest.raises(Malformed, match="its footer"):
            column_sizes(file)
    path.write_bytes(b"PAR1" + (1 << 30).to_bytes(4, "little") + b"PAR1")
    with path.open("rb") as file, pytest.raises(Malformed, match="longer than the file"):
        column_sizes(file)


@pytest.mark.parametrize(
    "hostile", [b"\x1c" * 400, b"\x19\xfc\xff\xff\xff\x0f", b"\x1e\x00", b"\x80" * 99]
)
def test_a_footer_of_no_end_is_refused(tmp_path: Path, hostile: bytes) -> None:
    path = tmp_path / "one.parquet"
    path.write_bytes(b"PAR1" + hostile + len(hostile).to_bytes(4, "little") + b"PAR1")
    with path.open("rb") as file, pytest.raises(Malformed, match="its footer"):
        column_sizes(file)


def test_a_column_that_contradicts_its_schema_is_an_error_and_no_crash() -> None:
    """Where pyarrow is asked for such a column, the process ends."""
    path = Path(__file__).parents[1] / "fuzz" / "finds" / "scores" / "levels-of-another-schema"
    with pytest.raises(Malformed, match="histogram size mismatch"):
        table_of(path, pa.schema([]))
