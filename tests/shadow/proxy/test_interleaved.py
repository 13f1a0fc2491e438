"""How lists are mixed (interleaved.py): what the file may say, and what it reads in a request."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.core.errors import BadPolicy
from harness.shadow.proxy.reading import Reading, Unreadable
from harness.stages.shadow.files import read_interleaved
from tests.make.shadow.servers import READING
from tests.shadow.proxy.mixed import HOW
from tests.source import ROOT

SHIPPED = (ROOT / "examples" / "shadow" / "interleaved.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"fts5", "tantivy"', '"fts5"', "at least 2 items"),
        ('"fts5", "tantivy"', '"fts5", "../x"', "is not the name of an arm"),
        ("wait_ms = 200", "wait_ms = 0", "greater than 0"),
        ("seed = 1\n", "", "seed: is missing"),
        ("first_page = 0", "first = 0", "unknown key"),
        ('"POST /click"', '"click"', "should match pattern"),
        ('"/body/list"', '"body/list"', "is not a JSON pointer"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in SHIPPED
    path = tmp_path / "mixed.toml"
    path.write_text(SHIPPED.replace(old, new), encoding="utf-8")
    with pytest.raises(BadPolicy, match=says) as found:
        read_interleaved(path)
    assert found.value.line or "missing" in says


def test_a_user_is_a_digest_or_nothing() -> None:
    one = HOW.user_of({"header": {"x-user": "secret"}})
    assert len(one) == 16
    assert "secret" not in one
    assert one == HOW.user_of({"header": {"x-user": "secret"}})
    assert one != HOW.user_of({"header": {"x-user": "other"}})
    assert HOW.user_of({"header": {}}) == ""
    assert HOW.model_copy(update={"user": ""}).user_of({"header": {}}) == ""


def test_a_first_page_is_one_that_says_so_or_nothing() -> None:
    assert HOW.mixes({"query": {}})
    assert HOW.mixes({"query": {"from": "0"}})
    assert not HOW.mixes({"query": {"from": "10"}})
    assert HOW.model_copy(update={"page": ""}).mixes({"query": {"from": "10"}})


def test_a_click_names_a_list_and_a_document() -> None:
    assert HOW.click.of({"body": {"list": "x", "document": 7}}) == ("x", "7")
    for body in ({"list": "x"}, {"list": "", "document": "d"}, {"list": True, "document": "d"}):
        with pytest.raises(Unreadable, match="the click"):
            HOW.click.of({"body": body})


@pytest.mark.parametrize(
    ("hits", "answer", "made"),
    [
        ("", [{"_id": "a"}], [1, 2]),
        ("/a~1b/0", {"a/b": [[{"_id": "a"}], 7]}, {"a/b": [[1, 2], 7]}),
        ("/x", {"x": [{"_id": "a"}], "n": 1}, {"x": [1, 2], "n": 1}),
    ],
)
def test_a_list_is_put_back_where_it_was(hits: str, answer: object, made: object) -> None:
    table = READING.answer.model_copy(update={"hits": hits, "degraded": ""})
    reading = Reading(request=READING.request, answer=table, bounds=READING.bounds)
    assert reading.listed(answer, 1) == {"a": {"_id": "a"}}
    assert reading.relisted(answer, [1, 2]) == made
