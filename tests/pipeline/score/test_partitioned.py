"""A run in many files: the values of the whole, by one process or two, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.batches import processes, using
from harness.core.errors import BadFile, HarnessError, InvalidArm
from harness.core.run import Run
from harness.corpus import trec
from harness.corpus.runs import read_scores, write_run
from harness.measures.quality import score
from harness.pipeline.score import files_of, measure, write_partitioned
from tests.make.runs import qrels_of, random_case

NAMES = ("nDCG@10", "RR@10", "AP@100")


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Write a run in three files, beside the judgements."""
    whole, qrels = random_case(5)
    rows = [row for row in whole.rows() if row.query_id != "q4"]
    for number in range(3):
        write_run(Run.of("arm", rows[number::3]), tmp_path / "run" / f"{number}.parquet")
    trec.write_qrels(tmp_path / "qrels", qrels)
    return tmp_path


def test_files_together_say_what_the_whole_says(parts: Path) -> None:
    whole, qrels = random_case(5)
    run = Run.of("arm", [row for row in whole.rows() if row.query_id != "q4"])
    wanted = score(run, qrels, NAMES, qrels.query_ids)
    found = measure(files_of([parts / "run"]), parts / "qrels", NAMES, parts / "cache")
    assert not (parts / "cache").exists()
    for name in NAMES:
        assert found[name].by_query == wanted[name].by_query
        assert found[name].undefined == wanted[name].undefined
    write_partitioned(parts / "values.parquet", found)
    again = read_scores(parts / "values.parquet", [])[()]
    assert again["RR@10"].by_query == wanted["RR@10"].by_query
    assert again["RR@10"].undefined == wanted["RR@10"].undefined


@pytest.mark.slow
def test_two_processes_give_the_same_values(parts: Path) -> None:
    files = files_of([parts / "run"])
    alone = measure(files, parts / "qrels", NAMES, parts / "cache")
    with processes(2, parts / "exchanged", print) as pool, using(pool):
        found = measure(files, parts / "qrels", NAMES, parts / "cache")
    assert {name: of.by_query for name, of in found.items()} == {
        name: of.by_query for name, of in alone.items()
    }


def test_what_is_refused(parts: Path) -> None:
    files = files_of([parts / "run"])
    with pytest.raises(BadFile, match="is in another file too"):
        measure([*files, *files_of([files[0]])], parts / "qrels", NAMES, parts / "cache")
    with pytest.raises(HarnessError, match="no Parquet file"):
        files_of([parts / "absent", parts][1:])
    trec.write_qrels(parts / "others", qrels_of({"other": {"d": 1}}))
    with pytest.raises(InvalidArm, match="answers none of the judged queries"):
        measure(files, parts / "others", NAMES, parts / "cache")
    files[1].write_bytes(b"no run")
    with pytest.raises(BadFile, match="not a run"):
        measure(files, parts / "qrels", NAMES, parts / "other")
