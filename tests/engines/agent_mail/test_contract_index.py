"""What ADR-003 says of the indexes: fields, tokens, prefixes, the file of vectors and its size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tantivy

from engines.lexical.tantivy import analyzer
from engines.stacks.agent_mail.tantivy.index import HASH, INDEX, schema_hash
from engines.vector import amvi
from engines.vector.embedder import HashEmbedder, OnnxEmbedder
from tests.make.mail.messages import one
from tests.make.mail.tantivy import NONE, Case, built

MB = 1_000_000
WHOLE = {"record": "basic", "tokenizer": "raw"}
WORDS = {"record": "position", "tokenizer": "am_normalize"}


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Case:
    texts = {1: "see br-2tnl", 2: "br and 2tnl apart", 3: "Deployment of the index", 4: "deploy"}
    root = tmp_path_factory.mktemp("index") / "mail"
    return built(root, [one(at, subject) for at, subject in texts.items()])


def fields(mail: Case) -> dict[str, dict[str, Any]]:
    meta = json.loads((mail.engine.root / INDEX / "meta.json").read_text())
    return {field["name"]: field["options"] for field in meta["schema"]}


@pytest.mark.parametrize("name", ["message_id", "project_id", "created_ts", "ack_required"])
def test_numbers_are_indexed_stored_and_fast(mail: Case, name: str) -> None:
    options = fields(mail)[name]
    assert options["indexed"]
    assert options["stored"]
    assert options["fast"]


@pytest.mark.parametrize("name", ["subject", "body"])
def test_texts_have_positions_and_are_stored(mail: Case, name: str) -> None:
    options = fields(mail)[name]
    assert options["stored"]
    assert {**options["indexing"], **WORDS} == options["indexing"]


@pytest.mark.parametrize("name", ["sender_name", "thread_id", "importance", "recipients"])
def test_names_are_whole_and_stored(mail: Case, name: str) -> None:
    options = fields(mail)[name]
    assert options["stored"]
    assert {**options["indexing"], **WHOLE} == options["indexing"]
    assert bool(options["fast"]) == (name == "thread_id")


def test_beginnings_are_indexed_plainly_and_not_stored(mail: Case) -> None:
    options = fields(mail)["subject_prefix"]
    assert not options["stored"]
    assert {**options["indexing"], **WHOLE} == options["indexing"]


def test_there_is_a_field_for_all_that_the_page_names_but_the_product(mail: Case) -> None:
    named = {
        "message_id", "project_id", "subject", "body", "subject_prefix", "sender_name",
        "thread_id", "importance", "created_ts", "ack_required",
    }  # fmt: skip
    assert set(fields(mail)) - named == {"recipients", "identifiers", "text"}
    assert named <= set(fields(mail))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Deploy FAILED, again!", ["deploy", "failed", "again"]),
        ("read_csv a.b/c", ["read", "csv", "a", "b", "c"]),
        ("x" * 256 + " kept " + "y" * 255, ["kept", "y" * 255]),
        ("ÄRGER Straße", ["ärger", "straße"]),
    ],
)
def test_am_normalize_splits_lower_cases_and_drops_what_is_endless(
    text: str, tokens: list[str]
) -> None:
    assert analyzer("none").analyze(text) == tokens


def test_the_tokens_of_the_index_are_those_of_am_normalize(mail: Case) -> None:
    index = tantivy.Index.open(str(mail.engine.root / INDEX))
    index.register_tokenizer("am_normalize", analyzer("none"))
    searcher = index.searcher()
    for word, count in {"deployment": 1, "Deployment": 0, "2tnl": 2, "br-2tnl": 0}.items():
        term = tantivy.Query.term_query(index.schema, "subject", word)
        assert len(searcher.search(term, 9).hits) == count


def test_a_hyphenated_token_is_found_whole(mail: Case) -> None:
    assert mail.ids("br-2tnl") == [1]
    assert set(mail.ids("br 2tnl")) == {1, 2}


def test_a_subject_is_found_while_it_is_typed(mail: Case) -> None:
    found = [c.message_id for c in mail.engine.typeahead("depl", NONE, 9)]
    assert sorted(found) == [3, 4]


def test_the_hash_of_the_schema_stands_beside_the_index(mail: Case) -> None:
    assert HASH == "schema_hash.json"
    assert json.loads((mail.engine.root / HASH).read_text()) == {
        "sha256": schema_hash(mail.engine.weights)
    }
    assert {HASH, INDEX} <= {path.name for path in mail.engine.root.iterdir()}


def size(path: Path, count: int, dimension: int) -> int:
    vectors = np.zeros((count, dimension), dtype=np.float16)
    amvi.write_amvi(path, "hash", np.arange(count, dtype=np.int64), vectors)
    return path.stat().st_size


def test_ten_thousand_messages_take_eight_megabytes_and_a_hundred_thousand_ten_times_that(
    tmp_path: Path,
) -> None:
    """Of a vector of 384 dimensions in half precision; the head and the padding are small."""
    dimension = HashEmbedder().dimension
    assert dimension == 384
    few, more = size(tmp_path / "a", 100, dimension), size(tmp_path / "b", 1_100, dimension)
    each = (more - few) / 1_000
    assert each == pytest.approx(2 * dimension + 12, abs=0.1)
    assert few - 100 * each < 128
    assert 7.5 * MB < 10_000 * each < 8.5 * MB
    assert 75 * MB < 100_000 * each < 80 * MB


def test_the_vector_of_a_message_is_read_from_the_file_when_it_is_needed(tmp_path: Path) -> None:
    size(tmp_path / "a", 100, 384)
    index = amvi.AmviIndex.open(tmp_path / "a", "hash", 384)
    assert isinstance(index.vectors, np.memmap)
    assert index.vectors.dtype == np.float16


def test_the_hash_embedder_needs_no_model_and_is_not_taken_for_one() -> None:
    embedder = HashEmbedder()
    assert embedder.embed(["deployment issues"]).shape == (1, 384)
    near, far = embedder.embed(["deployment issues", "rollout problems"])
    assert float(near @ far) == pytest.approx(0, abs=0.2), "it knows words, not meanings"
    assert not isinstance(embedder, OnnxEmbedder)
    assert embedder.identity == "fnv1a-64, 384 dimensions", "its index is signed as a hash"
