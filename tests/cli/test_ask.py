"""``harness ask``: the same answer as in the run, who gave it, its stages and its grades."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from engines.stacks.text.blend import BlendSearcher
from engines.stacks.text.tantivy import TantivySearcher
from harness.core.engine import Answer
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from tests.cli.conftest import Harness
from tests.make.toy import NAME, Toy

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


def test_two_arms_stand_below_each_other_on_the_screen(harness: Harness) -> None:
    said = harness(*WORDS, "balo", "--arm", "tantivy", "--arm", "hash-hybrid", "--explain")
    assert said.code == 0
    assert said.out.index("tantivy: balo") < said.out.index("hash-hybrid: balo")
    assert "by the arm itself" in said.out
    assert "fused" in said.out
    assert "grade" not in said.out
    assert "offers no explanation" in said.out


def test_a_fallback_is_not_the_arm(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = TantivySearcher.search

    def other(self: TantivySearcher, text: str, k: int) -> Answer:
        return replace(plain(self, text, k), served_by="f" * 64, note="fell back")

    monkeypatch.setattr(TantivySearcher, "search", other)
    said = harness(*WORDS, "balo", "--arm", "tantivy")
    assert "by not the arm itself" in said.out
    assert "fell back" in said.out


def test_an_arm_that_fails_is_no_verdict(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> Answer:
        raise OSError("the disk is [gone]")

    monkeypatch.setattr(TantivySearcher, "search", breaks)
    said = harness(*WORDS, "balo", "--arm", "tantivy", "--arm", "fts5")
    assert said.error == "tantivy: OSError: the disk is [gone]"
    assert "ms; OSError: the disk is [gone]" in said.out
    assert "failed in" in said.out
    assert "not the arm itself" not in said.out
    assert "fts5: balo" in said.out


def test_reasons_that_fail_are_named(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise ValueError("no stages today")

    monkeypatch.setattr(BlendSearcher, "stages", breaks)
    error = harness(*WORDS, "balo", "--arm", "hash-hybrid").error
    assert error == "hash-hybrid: answers, and cannot say why (no stages today)"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*WORDS, "--arm", "fts5"), "one of the two"),
        ((*WORDS, "x", "--query", "1", "--arm", "fts5"), "one of the two"),
        ((*WORDS, "--query", "nobody's", "--arm", "fts5"), "nobody's"),
        ((*WORDS, "x", "--arm", "elastic"), "elastic"),
    ],
)
def test_what_cannot_be_asked(harness: Harness, words: tuple[str, ...], says: str) -> None:
    assert says in harness(*words).error


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


def test_the_one_data_set_of_a_project_need_not_be_named(project: Toy, harness: Harness) -> None:
    """As the README prints it."""
    asked = ("ask", "balo", "--arm", "fts5")
    assert harness(*asked).code == 0
    params = project.root / "params.yaml"
    params.write_text(params.read_text().replace("[toy]", "[toy, other]"))
    said = harness(*asked).error
    assert said.startswith(
        "the project has several data sets (toy, other): name one with --dataset"
    )
