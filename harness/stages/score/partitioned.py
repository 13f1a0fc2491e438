"""A run in many files, scored file by file: memory never holds more than values by query."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.core.batches.batch import Batch
from harness.core.batches.mapping import map_batches
from harness.core.batches.source import code_sha256
from harness.core.digest import of_file, of_json
from harness.core.durable.locks import held
from harness.core.errors import HarnessError, InvalidArm
from harness.core.files import replacing
from harness.core.progress import progress
from harness.core.scores import Scores
from harness.corpus import trec
from harness.corpus.score_table import score_columns
from harness.measures.columnar.encoded import EncodedQrels
from harness.measures.columnar.partitions import Partial, joined, partial_scores

ENDING = "*.parquet"


@dataclass(frozen=True, slots=True)
class Measuring:
    """Scores one file of a run."""

    qrels: Path
    sha256: str
    measures: tuple[str, ...]

    def __call__(self, run: Path, beside: Path) -> Iterator[int]:
        partial = partial_scores(run, _judgements(self.qrels, self.sha256), self.measures)
        with beside.open("wb") as file:
            np.savez(file, allow_pickle=False, **partial._asdict())
        yield 1


def files_of(given: Sequence[Path]) -> list[Path]:
    """Name the files of a run, where a folder stands for the Parquet files in it.

    Raises:
        HarnessError: there is none.
    """
    found = [
        file for path in given for file in (sorted(path.glob(ENDING)) if path.is_dir() else [path])
    ]
    if not found:
        raise HarnessError(
            f"{', '.join(map(str, given))}: no Parquet file. Give the files of a run, such as those"
            " in the folder runs of a harness run"
        )
    return found


def measure(
    runs: Sequence[Path], qrels: Path, measures: tuple[str, ...], folder: Path
) -> Mapping[str, Scores]:
    """Score every judged query with the files of one run; parts lie in ``folder`` meanwhile.

    Raises:
        BadFile: a file is missing, damaged or not a run, or a query is in two of them.
        UnknownName: a measure has no kernel; InvalidArm: no judged query was answered.
    """
    sha256, absolute = of_file(qrels), qrels.absolute()
    own = [code_sha256(), sha256, measures]
    batches = [
        Batch(run.absolute(), folder / f"{of_json([*own, of_file(run)])[:32]}.npz") for run in runs
    ]
    with held(folder):
        with progress("scoring", len(batches)) as advance:
            map_batches(Measuring(absolute, sha256, measures), batches, advance=advance)
        parts = ((batch.given, _read(batch.part)) for batch in batches)
        found = joined(parts, _judgements(absolute, sha256), measures)
        if not any(len(scores.values) for scores in found.values()):
            raise InvalidArm(f"{qrels}: the run answers none of the judged queries")
        shutil.rmtree(folder, ignore_errors=True)
        return found


def write(path: Path, found: Mapping[str, Scores]) -> None:
    """Write every value as a table of scores, a measure at a time."""
    schema = score_columns([])
    with replacing(path) as beside, pq.ParquetWriter(beside, schema, compression="zstd") as file:
        for name, scores in found.items():
            lost = [(query_id, why) for why, ids in scores.undefined.items() for query_id in ids]
            ids = [*scores.query_ids, *(query_id for query_id, _ in lost)]
            empty = [None] * len(lost)
            columns = [
                pa.array([name] * len(ids), pa.string()),
                pa.array(ids, pa.string()),
                pa.array([*scores.values.tolist(), *empty], pa.float64()),
                pa.array([*[None] * len(scores.values), *(why for _, why in lost)], pa.string()),
            ]
            file.write_table(pa.table(columns, schema=schema))


@lru_cache(maxsize=1)
def _judgements(path: Path, sha256: str) -> EncodedQrels:  # noqa: ARG001  other contents, other key
    return EncodedQrels.of(trec.qrels(path))


def _read(path: Path) -> Partial:
    with path.open("rb") as file, np.load(file) as part:
        return Partial(part["rows"], part["status"], part["values"])
