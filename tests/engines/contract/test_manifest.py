"""Manifests: what is written, when, and what is no manifest."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from engines import contract
from harness.core.digest import of_documents, of_json
from harness.core.engine import Manifest
from harness.core.errors import IndexNotReady
from harness.core.records import Document

TWO = (Document("a", "A", "x"), Document("b", "B", "y"))


def drain(documents: Iterable[Document]) -> None:
    assert list(documents) == list(TWO)


def recorded(index: Path) -> Manifest:
    return contract.record(index, TWO, drain, engine="e", version="1", settings={"b": 1, "a": 2})


def test_it_counts_and_digests_what_was_indexed(index: Path) -> None:
    made = recorded(index)
    assert made == Manifest("e", "1", 2, of_documents(TWO), of_json({"a": 2, "b": 1}))
    assert contract.read(index) == made


def test_it_counts_only_what_was_taken(index: Path) -> None:
    def first(documents: Iterable[Document]) -> None:
        next(iter(documents))

    made = contract.record(index, TWO, first, engine="e", version="1", settings={})
    assert (made.documents, made.corpus_sha256) == (1, of_documents(TWO[:1]))


def test_an_interrupted_building_leaves_none(index: Path) -> None:
    def killed(documents: Iterable[Document]) -> None:
        list(documents)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        contract.record(index, TWO, killed, engine="e", version="1", settings={})
    with pytest.raises(IndexNotReady, match="no index here"):
        contract.read(index)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"3", b"null", b'{"engine": "e"}', b"\xff", b'{"engine": 1, "more": 2}'],
)
def test_what_is_no_manifest_is_not_ready(index: Path, text: bytes) -> None:
    (index / contract.FILE).write_bytes(text)
    with pytest.raises(IndexNotReady, match="Build it again: harness stage index"):
        contract.read(index)


def test_a_folder_in_its_place_is_not_ready(index: Path) -> None:
    (index / contract.FILE).mkdir()
    with pytest.raises(IndexNotReady):
        contract.read(index)


def test_the_count_must_be_the_one_found(index: Path) -> None:
    made = recorded(index)
    contract.check_count(index, made, 2)
    with pytest.raises(IndexNotReady, match="says 2 documents, the index holds 3"):
        contract.check_count(index, made, 3)


def test_who_opens_must_be_who_built(index: Path) -> None:
    made = recorded(index)
    settings = {"a": 2, "b": 1}
    contract.check_made_by(index, made, engine="e", version="1", settings=settings)
    with pytest.raises(IndexNotReady, match="engine 'e' is now 'f'"):
        contract.check_made_by(index, made, engine="f", version="1", settings=settings)
    with pytest.raises(IndexNotReady, match="version '1' is now '2'"):
        contract.check_made_by(index, made, engine="e", version="2", settings=settings)
    with pytest.raises(IndexNotReady, match="settings_sha256"):
        contract.check_made_by(index, made, engine="e", version="1", settings={"a": 2})


def test_a_compound_names_its_parts(index: Path) -> None:
    made = recorded(index)
    left, right = replace(made, engine="left"), replace(made, engine="right")
    whole = contract.joined(index, made, {"one": left, "two": right})
    assert contract.read(index) == whole
    assert json.loads((index / contract.FILE).read_text()) == asdict(whole)
    assert whole.version == contract.joined_version("1", {"one": left, "two": right})
    assert whole.fingerprint != contract.joined(index, made, {"one": left, "two": left}).fingerprint
