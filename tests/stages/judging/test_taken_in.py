"""Labels taken in lie beside the evidence, one file a machine, the latest."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.core.qrels import Qrels
from harness.corpus import labels
from harness.corpus.labels import Label
from harness.stages.judging.taken_in import folder_of, labels_in, take_in, with_labels
from tests.make import gate_inputs
from tests.make.toy import Toy


def label(by: str, grade: int, query_id: str = "q00", doc_id: str = "elsewhere") -> Label:
    return Label(query_id=query_id, doc_id=doc_id, grade=grade, kind="machine", by=by)


def test_the_latest_labels_of_a_machine_count(project: Toy, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    for by, grade in (("a", 0), ("b", 1), ("a", 2)):
        labels.write(path, [label(by, grade)])
        found = take_in(project.layout, path)
        assert (found.judge, found.labels, found.both) == (by, 1, 0)
    assert [one.name for one in labels_in(project.layout)] == ["a.jsonl", "b.jsonl"]
    given = with_labels(project.layout, {"step": gate_inputs.evidence(2)})["step"].labels
    assert given == {"a": Qrels({"q00": {"elsewhere": 2}}), "b": Qrels({"q00": {"elsewhere": 1}})}


def test_a_damaged_file_is_named(project: Toy) -> None:
    folder_of(project.layout).mkdir()
    (folder_of(project.layout) / "a.jsonl").write_text('{"query_id": 3}\n')
    with pytest.raises(BadFile, match=r"a\.jsonl:1: query_id: Input should be a valid string"):
        with_labels(project.layout, {"step": gate_inputs.evidence(2)})
