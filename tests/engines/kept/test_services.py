"""What the services of the three stacks answer: last tries, legs, missing models, places."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree
from typing import Any
from unittest import mock

import anyio
import numpy as np
import pytest
from mcp import Client

from engines.kept import cached
from engines.kept.kit import NOTES
from engines.stacks.code.units import Mode
from engines.stacks.documents import models
from engines.stacks.documents.arm import Documents
from engines.stacks.documents.collection import Collection
from engines.stacks.documents.library import Settings
from engines.stacks.documents.models import Loaded
from engines.stacks.documents.service import NEAREST
from engines.stacks.documents.service import follow as documents
from engines.vector.embedder import HashEmbedder
from harness.core.errors import HarnessError, ModelNotReady, UnknownName
from tests.engines.kept.test_index import BY_WORDS, FORMULA, STACKS, ask, live, write
from tests.make.code import write_shop
from tests.make.pdf import pdf

MODELS = {**BY_WORDS, "embedder": "all-MiniLM-L6-v2", "sparse": "splade-tiny"}


@pytest.mark.parametrize("stack", STACKS)
def test_a_query_that_no_index_answers_is_looked_for_as_it_is(tmp_path: Path, stack: str) -> None:
    write(tmp_path / "root", "a.md", "# A\n\nThe word 東京都庁 stands here, and unforgettable.\n")
    write(tmp_path / "root", "b.md", "# B\n\nsalt\n")
    followed = live(stack, tmp_path / "root", tmp_path / "kept")
    with followed.now() as (now, _):
        for text in ("京", "forgett", "+forgett -salt"):
            answer = ask(stack, now, text)
            shown = str(answer)
            assert "'fallback': 'like'" in shown, text
            assert "unforgettable" in shown
            assert "salt" not in str(answer.get("results", answer.get("items", answer.get("hits"))))
        assert "'fallback': 'like'" not in str(ask(stack, now, "salt"))
        assert "'fallback': 'like'" not in str(ask(stack, now, "forgett -stands"))
    followed.close()


def test_a_note_gives_several_passages(tmp_path: Path) -> None:
    text = "\n\n".join([f"Tide number {n}. " + "The harbour sleeps on. " * 60 for n in range(4)])
    write(tmp_path / "root", "long.md", text)
    followed = live("notes", tmp_path / "root", tmp_path / "kept")
    with followed.now() as (now, _):
        found = now.retrieve("tide", explain=True)
    assert len({item["sourceRef"] for item in found["items"]}) > 1
    first = found["items"][0]["sourceRef"]
    assert found["explain"][first]["ranks"] == {'"tide"': 1}
    assert found["explain"][first]["bm25"] == 1.0
    followed.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Any:  # noqa: ANN401  an open folder
    folder = tmp_path_factory.mktemp("shop")
    followed = live("code", write_shop(folder / "root"), folder / "kept")
    with followed.now() as (now, _):
        yield now
    followed.close()


def test_code_is_shown_with_its_place(shop: Any) -> None:  # noqa: ANN401  as above
    hit = shop.search("total price", top=1, explain=True)["hits"][0]
    assert hit["name"] == "shop.prices.PriceList.total_price"
    assert (hit["path"], hit["lines"]) == ("prices.py", "12-16")
    assert hit["prefix"].lstrip().startswith("def total_price(self")
    assert set(hit["scoreBreakdown"]) >= {"selected", "sparse", "ann", "symbol", "phrase", "graph"}


def test_filters_hold_and_context_follows(shop: Any) -> None:  # noqa: ANN401  as above
    found = shop.search("", filters={"calls": "load_prices"})
    assert {hit["name"] for hit in found["hits"]} == {
        "shop.prices.PriceList.price_of", "shop.till.checkout",
    }  # fmt: skip
    found = shop.search("checkout", top=1, mode=Mode.CODE, context=3)
    beside = {(one["name"], one["reason"]) for one in found["context"]}
    assert ("shop.prices.load_prices", "call") in beside
    listed = shop.search("prices", filters={"lang": "toml"})["hits"]
    assert not listed


def test_graph_ranking_keeps_the_members(shop: Any) -> None:  # noqa: ANN401  as above
    plain = shop.search("price", top=4)["hits"]
    ranked = shop.search("price", top=4, graph=True, explain=True)["hits"]
    assert {hit["id"] for hit in plain} == {hit["id"] for hit in ranked}
    assert ranked[0]["scoreBreakdown"]["graph"]["seedSelection"] == "top1"


@pytest.mark.parametrize("name", ["retain", "Book.retain", "Book"])
def test_what_is_named_exactly_comes_before_prose_and_words(tmp_path: Path, name: str) -> None:
    write(tmp_path / "root", "a.md", f"# About {name}\n\n{name} {name}: retain a Book.\n")
    write(tmp_path / "root", "b.py", '"""retain Book."""\n\n\ndef retained(Book):\n    retain()\n')
    write(tmp_path / "root", "z.py", "class Book:\n    def retain(self):\n        return 1\n")
    followed = live("code", tmp_path / "root", tmp_path / "kept")
    with followed.now() as (now, _):
        first, *rest = now.search(name, explain=True)["hits"]
        prose = now.search(name, mode=Mode.PROSE)["hits"]
        only = now.search(name, filters={"path": "b.py"})["hits"]
    followed.close()
    assert first["name"] in {f"z.{name}", f"z.Book.{name}"}
    assert first["scoreBreakdown"]["selected"] == {"type": "name", "score": 1.0}
    assert rest
    assert {hit["mode"] for hit in prose} == {"prose"}
    assert {hit["path"] for hit in only} == {"b.py"}


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("papers") / "root"
    root.mkdir()
    pages = [["Customer retention rose in Ocean Tide Trust."], ["Churn fell in Ocean Tide Trust."]]
    (root / "q3.pdf").write_bytes(pdf(pages))
    write(root, "c.md", "Salt and water.\n")
    write(root, "b.md", "# Notes\n\nRetention of customers and Ocean Tide Trust.\n")
    return root


def test_documents_are_cited_filtered_and_expanded(papers: Path, tmp_path: Path) -> None:
    followed = live("docs", papers, tmp_path / "kept")
    with followed.now() as (now, _):
        found = now.search("churn", related=5)
        assert found["results"][0]["citation"] == "q3.pdf, p. 2, para. 1"
        assert found["results"][0]["source"]["document_path"] == str(papers / "q3.pdf")
        assert {one["document_id"] for one in found["related"]} == {"q3.pdf", "b.md"}
        assert found["related"][0]["shared"] == ["ocean tide trust"]
        assert "related" not in now.search("churn")
        only = now.search("retention", document_filter="b.md")["results"]
        assert [one["source"]["document_id"] for one in only] == ["b.md"]
        with pytest.raises(UnknownName, match=r"b\.md"):
            now.search("retention", document_filter="b.txt")
        with pytest.raises(HarnessError, match="ask for one result"):
            now.search("retention", top_k=0)
    followed.close()


def arm(cache: Path, **changed: object) -> Documents:
    settings = {**MODELS, **FORMULA, "fusion": "rank", "recall_weight": 1.0, **changed}
    return Documents(Settings.model_validate(settings), cache)


def test_every_leg_is_explained(papers: Path, tmp_path: Path) -> None:
    followed = documents(arm(tmp_path / "cache"), papers, tmp_path / "kept")
    with followed.now() as (now, _):
        found = now.search("customer retention", explain=True)
    assert found["stages_used"] == ["bm25", "semantic"]
    legs = found["explain"][found["results"][0]["source"]["chunk_id"]]
    assert legs["bm25"] in {1, 2}
    assert 0 < legs["e1"] <= 1
    assert legs["e6"] > 0
    followed.close()


def test_vectors_of_documents_say_that_no_word_is_found(papers: Path, tmp_path: Path) -> None:
    followed = documents(arm(tmp_path / "cache"), papers, tmp_path / "kept")
    with followed.now() as (now, _):
        part, near = now.search("ustome retenti"), now.collection.search("retention", 3)
        with mock.patch.object(Collection, "search", return_value=near):
            none = now.search("zebra")
        assert "nearest" not in now.search("retention")
    followed.close()
    assert (part["fallback"], "nearest" in part) == ("like", False)
    assert (none["nearest"], bool(none["results"]), "fallback" in none) == (NEAREST, True, False)


def test_a_missing_model_answers_by_words_and_says_so(papers: Path, tmp_path: Path) -> None:
    def absent(_: Settings) -> None:
        raise ModelNotReady("the file is absent")

    with mock.patch("engines.stacks.documents.models.embedder_of", absent):
        followed = documents(arm(tmp_path / "cache"), papers, tmp_path / "kept")
        with followed.now() as (now, _):
            found = now.search("customer retention")
        followed.close()
    assert found["missing"] == [
        {"part": "E1", "why": "the file is absent", "reason": models.MODEL_NOT_READY}
    ]
    assert found["results"]
    assert Loaded.of(Settings.model_validate({**BY_WORDS, **FORMULA}), tmp_path).missing == ()


def test_the_tier_pro_reranks_a_folder_and_follows_it(papers: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    copytree(papers, root)
    followed = documents(arm(tmp_path / "cache", tier="pro"), root, tmp_path / "kept")
    with followed.now() as (now, _):
        found = now.search("customer retention")
    assert found["stages_used"] == ["bm25", "semantic", "colbert"]
    made = found["results"][0]["source"]["chunk_embedded_at"]
    write(root, "d.md", "Customer retention, once more.\n")
    with followed.now() as (now, _):
        again = now.search("customer retention")
    followed.close()
    assert again["stages_used"] == ["bm25", "semantic", "colbert"]
    times = {one["source"]["document_id"]: one["source"] for one in again["results"]}
    assert times["q3.pdf"]["chunk_embedded_at"] == made
    assert times["d.md"]["chunk_embedded_at"] > times["d.md"]["chunk_created_at"] > made
    assert len([*(tmp_path / "kept").glob("*-tokens.bin")]) == 1


def test_vectors_are_made_once_for_each_text(tmp_path: Path) -> None:
    db = sqlite3.connect(":memory:")
    db.executescript(cached.TABLE)
    embedder = HashEmbedder()
    model = cached.vectors_of(embedder, tmp_path)
    times = iter([datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)])
    cached.complete(db, [model], ["salt", "sea"], lambda: next(times))
    assert model.of(db, ["salt", "tide"]) is None
    cached.complete(db, [model], ["salt", "tide"], lambda: next(times))
    found = model.of(db, ["tide", "salt"])
    assert found is not None
    vectors = cached.matrix(found.values, embedder.dimension)
    assert np.array_equal(vectors, embedder.embed(["tide", "salt"]).astype(np.float16))
    assert [one[:10] for one in found.made_at] == ["2026-01-02", "2026-01-01"]
    assert model.of(db, ["sea"]) is None


def test_an_answer_to_a_client_names_what_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path / "root", "a.md", "salt")
    app = NOTES.application(live("notes", tmp_path / "root", tmp_path / "kept"), "notes")

    def answer() -> Any:  # noqa: ANN401  as the tool gives it
        async def ask() -> Any:  # noqa: ANN401  as the tool gives it
            async with Client(app) as client:
                return (
                    await client.call_tool("rag_retrieve", {"queryText": "salt"})
                ).structured_content

        return anyio.run(ask)

    assert "unread" not in answer()
    (tmp_path / "root" / "b.md").write_bytes(b"\xff")
    why = "is not UTF-8 (invalid start byte). Save it as UTF-8"
    assert answer()["unread"] == [{"path": "b.md", "why": why}]


def test_a_page_without_text_is_named_and_the_others_are_found(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "half.pdf").write_bytes(pdf([["The quince is ripe."], []]))
    followed = live("docs", tmp_path / "root", tmp_path / "kept")
    for read in (1, 0):
        with followed.now() as (now, done):
            assert now.search("quince")["results"]
        assert done is not None
        assert (done.read, done.faults) == (read, ())
        assert [*done.notes] == [("half.pdf", "no text on page 2; it cannot be found")]
    followed.close()
