"""Each table of evidence, damaged in each way, before each command that reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.pipeline.layout import Layout
from tests.cli.conftest import Harness
from tests.make.toy import NAME, Toy

pytestmark = pytest.mark.slow

READ_BY = {
    "runs/fts5.parquet": ("verify", "compare", "score"),
    "scores/per_query.parquet": ("verify", "report", "gate"),
    "compare/agreement.parquet": ("verify", "report", "gate"),
    "compare/classes.parquet": ("verify", "report", "gate"),
    "times.parquet": ("report", "gate"),
}
"""Tables of a data set, and commands that read them; the last one takes the decision away."""
Damage = Callable[[pa.Table], pa.Table]


def damages(schema: pa.Schema) -> Iterator[tuple[str, Damage]]:
    """Give what may be wrong with a table that is whole as a file."""
    for at, name in enumerate(schema.names):
        yield f"without {name}", partial(_without, at)
        yield f"numbers as {name}", partial(_numbered, at)
    yield "no column", partial(pa.Table.select, columns=[])


def _numbered(at: int, table: pa.Table) -> pa.Table:
    numbers = pa.array([1] * table.num_rows, pa.int8())
    return table.set_column(at, table.schema.names[at], numbers)


def _without(at: int, table: pa.Table) -> pa.Table:
    return table.remove_column(at)


def typed(command: str) -> tuple[str, ...]:
    return (command,) if command == "report" else (command, "--dataset", NAME)


def files(layout: Layout, root: Path) -> dict[str, Path]:
    """Give each table by the end of its path."""
    places = [*layout.root.rglob("*.parquet"), *root.rglob("times.parquet")]
    found = {}
    for end in READ_BY:
        (found[end],) = {path for path in places if path.as_posix().endswith(f"/{end}")}
    return found


@pytest.mark.whole("test_a_table_that_is_cut_or_flipped_is_named")
def test_a_table_of_other_columns_is_named_by_every_command(project: Toy, harness: Harness) -> None:
    project.decide()
    for end, path in files(project.layout, project.root).items():
        whole = path.read_bytes()
        table = pq.read_table(path)
        for command, (what, damage) in product(READ_BY[end], [*damages(table.schema)]):
            pq.write_table(damage(table).replace_schema_metadata(table.schema.metadata), path)
            said = harness(*typed(command))
            assert said.code == 2, (end, what, command, said)
            assert end in said.err, (what, command, said.err)
            assert "Traceback" not in said.err
        path.write_bytes(whole)
        project.decide()


@pytest.mark.parametrize("end", READ_BY)
def test_a_table_that_is_cut_or_flipped_is_named(project: Toy, harness: Harness, end: str) -> None:
    project.decide()
    path = files(project.layout, project.root)[end]
    whole = path.read_bytes()
    for raw in (b"", whole[: len(whole) // 2], whole[:-4] + b"PAR2", bytes(len(whole))):
        path.write_bytes(raw)
        said = harness(*typed(READ_BY[end][0]))
        assert (said.code, end in said.err) == (2, True), said
