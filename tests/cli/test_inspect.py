"""Ask, decompose and tune; import, export, query sets and logs."""

import json
from typing import Any

import pytest

from harness.corpus import card
from harness.corpus.prepared import Prepared
from harness.corpus.runs import ARM_SCORES, read_run
from harness.pipeline.decompose import kept
from tests.cli.conftest import Harness
from tests.make.toy import GATES, HEAD, NAME, SPACE, STEP, Toy

pytestmark = pytest.mark.slow
WORDS = ("ask", "--dataset", NAME)


def told(harness: Harness, *words: str) -> list[dict[str, Any]]:
    said = harness(*WORDS, *words, "--json")
    assert said.code == 0, said
    found: list[dict[str, Any]] = json.loads(said.out)
    return found


def test_a_query_is_answered_as_in_the_run_with_its_grades(project: Toy, harness: Harness) -> None:
    data = Prepared.open(project.layout.data)
    query = next(q for q in data.queries() if q.query_id in data.qrels().answerable)
    (found,) = told(harness, "--arm", "hash-hybrid", "--query", query.query_id)
    row = next(
        row
        for row in read_run(project.layout.run("hash-hybrid")).rows()
        if row.query_id == query.query_id
    )
    shown = [hit.doc_id for hit in row.hits][:10]
    assert [hit["doc_id"] for hit in found["hits"]] == shown
    assert found["served_by"] == row.served_by
    assert (found["by_itself"], found["status"]) == (True, "answered")
    judged = data.qrels().grades[query.query_id]
    assert [hit["grade"] for hit in found["hits"]] == [judged.get(one) for one in shown]
    assert any(hit["grade"] for hit in found["hits"])
    assert [hit["ranks"]["fused"] for hit in found["hits"]] == [*range(1, len(shown) + 1)]


def test_json_has_the_very_ids_and_nothing_that_a_terminal_obeys(
    project: Toy, harness: Harness
) -> None:
    """An id with a change of direction came out as another id."""
    corpus = project.root / "beir" / "corpus.jsonl"
    strange = "\u202e\u2028\x9bd\u00e9\U000e0001"
    corpus.write_text(corpus.read_text().replace('"d00"', json.dumps(strange)))
    harness("run", "--dataset", "beir", "--arms", "fts5", "--out", "out")
    title = json.loads(corpus.read_text().splitlines()[0])["title"]
    said = harness("ask", title, "--from", "out", "--arm", "fts5", "--json")
    (one,) = json.loads(said.out)
    assert strange in {hit["doc_id"] for hit in one["hits"]}
    assert said.out.replace("\n", "").isprintable()
    assert "d\u00e9" in said.out


WORDS_DECOMPOSE = ("decompose", "--control", "fts5", "--candidate", "hash-hybrid")


def test_every_query_is_in_the_file_and_its_parts_sum_to_its_difference(
    project: Toy, harness: Harness
) -> None:
    said = harness(*WORDS_DECOMPOSE, "--dataset", NAME, "--top", "3")
    assert said.code == 0, said
    scores = ARM_SCORES.read(project.layout.per_query)
    old, new = (scores[(arm,)]["nDCG@10"].by_query for arm in ("fts5", "hash-hybrid"))
    path = project.layout.today / "apart" / "fts5~hash-hybrid.json"
    found = json.loads(path.read_text())["queries"]
    assert [row["query_id"] for row in found] == [q for q in old if q in new]
    parts = ("lexical_shown", "lexical_order", "fused_shown", "fused_order")
    for row in found:
        total = sum(float(row[part]) for part in parts)
        assert total == pytest.approx(new[row["query_id"]] - old[row["query_id"]], abs=1e-9)
        assert float(row["difference"]) == pytest.approx(total, abs=1e-9)
        took = min(parts, key=lambda part: float(row[part]))
        assert row["lost_most_by"] == (took.replace("_", " ") if float(row[took]) < 0 else "")
    assert any(float(row["fused_shown"]) or float(row["fused_order"]) for row in found)
    assert any(row["semantic_alone"] != row["candidate"] for row in found)
    (for_the_explorer,) = kept(project.layout)
    assert list(for_the_explorer.steps) == [row["query_id"] for row in found]


TUNE = ("tune", "tantivy", "--dataset", "beir", "--search", "space.toml", "--out", "mine.toml")
RUN = ("run", "--arms", "fts5,mine.toml", "--control", "fts5", "--dataset", "beir", "--out", "out")


@pytest.fixture
def split(project: Toy) -> Toy:
    """Return the collection of the project a split to tune on, and one for the decision."""
    qrels = project.root / "beir" / "qrels"
    head, *judged = (qrels / "test.tsv").read_text().splitlines(keepends=True)
    for name, odd in (("train", 1), ("test", 0)):
        mine = [line for line in judged if int(line[1:3]) % 2 == odd]
        (qrels / f"{name}.tsv").write_text(head + "".join(mine))
    (project.root / "space.toml").write_text(SPACE)
    relaxed = HEAD + STEP + GATES
    for strict, loose in (
        ("min_queries = 20", "min_queries = 5"),
        ("margin = 0.15", "margin = 0.3"),
        ("max_share = 0.15", "max_share = 0.5"),
        ("floor = 0.5", "floor = 0.4"),
    ):
        relaxed = relaxed.replace(strict, loose)
    (project.root / "policy" / "pairwise.toml").write_text(relaxed)
    return project


def decided(project: Toy) -> tuple[str, str]:
    """Outcome of the step, and the page."""
    (about,) = json.loads((project.root / "out" / "decision.json").read_text())["datasets"]
    return about["steps"][0]["outcome"], (project.root / "out" / "index.html").read_text()


def test_planted_leakage_is_found_and_a_split_that_was_not_seen_decides(
    split: Toy, harness: Harness
) -> None:
    said = harness(*TUNE)
    assert said.code == 0
    assert "tantivy: 6 settings on 21 queries of beir/train" in said.out
    assert "best, expected on other queries" in said.out
    assert harness(*RUN, "--exit-code").code == 0
    assert decided(split)[0] == "promote"
    assert "mine was tuned on beir/train, and on none of these queries." in decided(split)[1]

    tuned_on = "mine was tuned on 21 of the 21 judged queries (beir/train)"
    assert harness(*RUN, "--split", "train", "--exit-code").code == 3
    outcome, page = decided(split)
    assert outcome == "hold"
    assert f"INVALID: {tuned_on}" in page
    again = harness(
        "gate", "--from", "out", "--control", "fts5", "--policy", "policy/pairwise.toml"
    )
    assert again.code == 3

    policy = split.root / "policy" / "pairwise.toml"
    allowed = 'evidence_days = 2\ntuned_reason = "a smoke test"'
    policy.write_text(policy.read_text().replace("evidence_days = 2", allowed))
    assert harness(*RUN, "--split", "train", "--exit-code").code == 0
    outcome, page = decided(split)
    assert outcome == "promote"
    assert f"Allowed by the policy: {tuned_on}. Its reason: a smoke test." in page
    assert harness("verify", "--from", "out").code == 0


def test_another_id_and_one_query_of_many_hide_nothing(split: Toy, harness: Harness) -> None:
    harness(*TUNE)
    beir = split.root / "beir"
    queries = (beir / "queries.jsonl").read_text()
    (seen,) = [line for line in queries.splitlines() if '"q01"' in line]
    moved = json.dumps(json.loads(seen) | {"_id": "new", "text": json.loads(seen)["text"].upper()})
    (beir / "queries.jsonl").write_text(queries + moved + "\n")
    test = beir / "qrels" / "test.tsv"
    test.write_text(test.read_text() + "new\td01\t1\n")
    assert harness(*RUN, "--exit-code").code == 3
    assert "mine was tuned on 1 of the 21 judged queries" in decided(split)[1]


def test_an_arm_whose_record_is_gone_is_not_indexed(split: Toy, harness: Harness) -> None:
    harness(*TUNE)
    (split.root / "mine.tuning.json").unlink()
    assert "mine.tuning.json: no such file" in harness(*RUN).err


def test_a_collection_is_imported_and_prepared(project: Toy, harness: Harness) -> None:
    words = ("import", "beir", "beir", "--name", "other", "--licence", "CC0-1.0")
    said = harness(*words, "--source", "a test")
    assert said.code == 0, said.err
    assert "imported other (test): 60 documents, 41 queries, 2401 judgements" in said.out
    assert "harness run --dataset other" in said.out
    assert harness("stage", "prepare", "--dataset", "other").code == 0
    own, first = (card.read(project.root / "datasets" / name) for name in ("other", "toy"))
    assert (own.licence, own.source) == ("CC0-1.0", "a test")
    assert own.sha256.corpus == first.sha256.corpus
    assert own.sha256.qrels == first.sha256.qrels
