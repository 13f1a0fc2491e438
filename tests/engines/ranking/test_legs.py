"""The scripts behind docs/findings.md on a collection of files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import choices_more, fusion, names, names_sets, query_parts
from benchmarks.choices import Choice
from benchmarks.legs import Collection
from engines import registry
from engines.stacks.text.blend import Blend, BlendSearcher
from harness.collections.python_docs import read
from harness.corpus.card import Harvesting

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
    fused = fusion.measured(collection.folder, collection.out)
    assert fused.means["by score, 0.7"] == pytest.approx(1)


def test_words_of_a_name_are_told_apart_from_one_word(collection: Collection) -> None:
    legs = names.legs(collection)
    assert {q: of.told for q, of in legs.items()} == dict.fromkeys(QUERIES, False) | {
        "id:frame": True
    }
    assert {q for q, of in legs.items() if of.one} == {"id:csv"}
    for guard in names.GUARDS:
        assert next(iter(legs["id:csv"].by(guard))) == "pandas.read_csv"


def test_without_a_share_words_lead_and_vectors_fill_up(collection: Collection) -> None:
    of = names.legs(collection)["id:csv"]
    words_first = of.by(names.Guard(0, titles=False, joins=False))
    assert list(words_first)[: len(of.plain)] == list(of.plain)
    assert len(words_first) > len(of.plain)


def test_a_set_of_names_is_what_a_package_documents(tmp_path: Path) -> None:
    assert {"hypothesis", "hypothesis.strategies"} <= set(names_sets.namespaces("hypothesis"))
    settings = Harvesting(
        namespaces=["scipy.cluster.vq"],
        packages={},
        documents=100,
        natural_language=100,
        identifiers=100,
        fewest_words=20,
        characters=500,
    )
    names_sets.write(read(settings), tmp_path)
    found = Collection(tmp_path, "test", tmp_path)
    assert "whiten" in found.queries.values()
    assert {one.doc_id for one in found.documents} >= set(
        found.qrels.grades["id:scipy.cluster.vq.whiten"]
    )


def test_words_of_the_first_documents_widen_a_search(collection: Collection) -> None:
    alone, fed = choices_more.unfed(collection), choices_more.fed_back(collection)
    assert set(alone["id:csv"]) == {"pandas.read_csv"}
    assert next(iter(fed["id:csv"])) == "pandas.read_csv"
    assert "numpy.loadtxt" in fed["id:csv"]


def test_the_gate_of_cheaper_queries_says_which_of_its_parts_are_met(
    collection: Collection, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(collection.folder, other)
    both = choices_more.collections_of([collection.folder, other], collection.out)
    same = Choice("the same", choices_more.vectors, choices_more.vectors)
    told = choices_more.judged(same, both).splitlines()
    assert told[0] == "the same, not inferior by 0.01"
    assert [line.rpartition(": ")[2] for line in told[1:]] == ["yes", "no", "yes"]
    lost = Choice("lost", choices_more.vectors, lambda one: {q: {} for q in one.queries})
    assert choices_more.judged(lost, both).splitlines()[3] == "each collection: no"


def test_queries_by_eight_bits_are_near_those_by_32(collection: Collection) -> None:
    asked = choices_more.asked(collection, choices_more.INT8)
    for q, scores in asked.items():
        whole = collection.vectors[q]
        shared = scores.keys() & whole.keys()
        assert len(shared) > len(TEXTS) / 2
        assert 0 < max(abs(scores[d] - whole[d]) for d in shared) < 0.1


def test_each_part_of_a_query_is_named_and_works(collection: Collection) -> None:
    engine = registry.load("hybrid", collection.out / "cache").engine
    assert isinstance(engine, Blend)
    with collection.opened("tantivy") as words, collection.opened("hybrid") as hybrid:
        assert isinstance(hybrid, BlendSearcher)
        parts = query_parts.parts(words, hybrid, engine)
        assert all(query_parts.spent(part, "the average") > 0 for part in parts.values())
        assert parts["sum of scores"]("the average") == hybrid.search("the average", 50).hits
