"""What an arm proves itself by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.core.errors import BadFile, EvidenceError, IndexNotReady
from harness.corpus.prepared import Prepared
from harness.pipeline.receipts import (
    check_corpus,
    check_run,
    check_same,
    note_run,
    read_manifest,
)
from tests.make.toy import ARMS, Toy


@pytest.mark.parametrize("arm", ARMS)
def test_a_measured_arm_is_proven(measured: Toy, arm: str) -> None:
    check_run(measured.layout, arm)
    made = read_manifest(measured.layout, arm)
    check_corpus(measured.layout, arm, made, Prepared.open(measured.layout.data))


@pytest.mark.parametrize("text", ["{", "[]", '{"engine": "x"}', '{"engine": 1, "colour": 2}'])
def test_a_manifest_that_is_none_is_named(project: Toy, text: str) -> None:
    project.layout.manifest("fts5").write_text(text)
    with pytest.raises(BadFile, match=r"fts5\.json.*harness stage index --dataset toy"):
        read_manifest(project.layout, "fts5")


def test_two_indexes_are_told_apart(measured: Toy) -> None:
    wanted = read_manifest(measured.layout, "fts5")
    check_same(measured.layout, "fts5", wanted, replace(wanted))
    other = replace(wanted, settings_sha256="0")
    with pytest.raises(IndexNotReady, match=f"{other.fingerprint[:12]} instead of "):
        check_same(measured.layout, "fts5", wanted, other)


def test_other_documents_are_told_apart(measured: Toy) -> None:
    other = replace(read_manifest(measured.layout, "fts5"), corpus_sha256="0")
    with pytest.raises(IndexNotReady, match="of other documents"):
        check_corpus(measured.layout, "fts5", other, Prepared.open(measured.layout.data))


def test_a_run_that_was_changed_is_refused_until_it_is_noted(project: Toy) -> None:
    project.layout.run("fts5").write_bytes(project.layout.run("tantivy").read_bytes())
    with pytest.raises(
        EvidenceError, match=r"fts5\.parquet: was changed since .*harness stage replay"
    ):
        check_run(project.layout, "fts5")
    note_run(project.layout, "fts5")
    check_run(project.layout, "fts5")
