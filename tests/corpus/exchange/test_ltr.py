"""Judgement lists of the learning-to-rank plugins."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.corpus.exchange import read_ltr

HEAD = "# qid:1: rambo: first blood\n#\n"


def written(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "j.txt"
    path.write_text(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        HEAD + "4 qid:1 # 7555 Rambo\n0\tqid:1\t#\t1370\n",
        HEAD + "4 qid:1 1:9.5 2:0.1 # 7555\n0 qid:1 #1370\n",
        "\n4 qid:1 # 7555 rambo: first blood\n\n\n0 qid:1 # 1370 rambo: first blood\n",
    ],
)
def test_a_list_is_read(tmp_path: Path, content: str) -> None:
    found = read_ltr(written(tmp_path, content))
    assert [(query.query_id, query.text) for query in found.queries] == [
        ("1", "rambo: first blood")
    ]
    assert found.qrels.grades == {"1": {"1370": 0, "7555": 4}}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (HEAD + "4 qid:1\n", r"j\.txt:3: the line is not: grade qid:ID # document"),
        (HEAD + "x qid:1 # d\n", r"j\.txt:3: the grade 'x'"),
        ("4 qid:1 # d\n", r"j\.txt:1: the query has no text"),
        ("4 qid:1 # d one\n4 qid:1 # e two\n", r"j\.txt:2: the query '1' has another text"),
    ],
)
def test_a_broken_list_names_its_line(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(BadFile, match=says):
        read_ltr(written(tmp_path, content))


@pytest.mark.parametrize("weight", ["*1", "*2.5", " * 10"])
def test_weights_behind_all_texts_are_taken_off(tmp_path: Path, weight: str) -> None:
    heads = f"# qid:1: kettle{weight}\n# qid:2: 5*3 grid{weight}\n"
    found = read_ltr(written(tmp_path, f"{heads}4 qid:1 # a\n2 qid:2 # b\n"))
    assert [query.text for query in found.queries] == ["kettle", "5*3 grid"]


@pytest.mark.parametrize("other", ["kettle", "kettle*", "kettle*x", "5*3 grid"])
def test_one_weight_among_texts_without_is_refused(tmp_path: Path, other: str) -> None:
    heads = f"# qid:1: {other}\n# qid:2: hose*1\n"
    with pytest.raises(BadFile, match=r"j\.txt:2: the text 'hose\*1' ends as a weight does"):
        read_ltr(written(tmp_path, f"{heads}4 qid:1 # a\n2 qid:2 # b\n"))
