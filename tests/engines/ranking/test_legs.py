"""The scripts behind docs/findings.md on a collection of files."""

from __future__ import annotations

import json

import pytest

from benchmarks.legs import Collection

TEXTS = {
    "pandas.Index.to_frame": "Give the labels as a table.",
    "pandas.read_csv": "Read comma-separated values into a table of rows.",
    "numpy.mean": "Average of numbers along an axis.",
    "scipy.fft.dct": "Cosine transform of a signal, in a frame of numbers.",
    "numpy.loadtxt": "Numbers of a text, commas between them, separated by a sign.",
} | {f"other.thing{at}": f"Thing {at}." for at in range(25)}
QUERIES = {"id:frame": "to frame", "id:csv": "read_csv", "nl:mean": "what is the average"}
MEANT = {"id:frame": "pandas.Index.to_frame", "id:csv": "pandas.read_csv", "nl:mean": "numpy.mean"}


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """Write a collection of thirty functions and three queries."""
    folder = tmp_path_factory.mktemp("legs") / "small"
    (folder / "qrels").mkdir(parents=True)
    documents = ({"_id": d, "title": d, "text": text} for d, text in TEXTS.items())
    queries = ({"_id": q, "text": text} for q, text in QUERIES.items())
    for name, rows in (("corpus", documents), ("queries", queries)):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines)
    judged = "".join(f"{q}\t{d}\t1\n" for q, d in MEANT.items())
    (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    return Collection(folder, "test", folder.parent / "out")


def test_every_leg_finds_what_is_meant_and_is_kept(collection: Collection) -> None:
    assert set(collection.near.queries) == set(QUERIES)
    for leg in (collection.vectors, collection.arm("dense"), collection.words):
        assert next(iter(leg["id:csv"])) == "pandas.read_csv"
