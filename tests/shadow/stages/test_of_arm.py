"""``stages.shadow.of_arm``: the file of an engine over HTTP, read as the reading of a proxy."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from harness.core.engine import Manifest
from harness.core.errors import BadPolicy
from harness.shadow.files import http_reading
from harness.shadow.server import Unreadable
from tests.source import ROOT

pytest.importorskip("jmespath", reason='needs the extra "http"')
SERVERS = ROOT / "examples" / "http_engine" / "servers"
FILE = """
summary = "A server"
stack = "http"
[settings]
url = "http://127.0.0.1:9200/articles/_search?pretty=false"
body = '{{"query": {{"match": {{"a/b": {text}}}}}, "size": "${{k}}"}}'
hits = "hits.hits"
id = "_id"
score = "_score"
incomplete = "timed_out || _shards.failed > `0`"
generation = "state"
timeout_s = 3.0
[[settings.probe]]
url = "http://127.0.0.1:9200/articles"
generation = "state"
"""
WHO = Manifest("http", "there", 0, "", "")


def written(folder: Path, text: str = '"${text}"') -> Path:
    path = folder / "engine.toml"
    path.write_text(FILE.format(text=text), "utf-8")
    return path


def test_a_request_is_read_where_the_template_puts_it(tmp_path: Path) -> None:
    reading = pickle.loads(pickle.dumps(http_reading(written(tmp_path))))  # noqa: S301  it goes to a process
    assert reading.request.compared == ["POST /articles/_search"]
    body = {"query": {"match": {"a/b": "red cone"}}}
    assert reading.asked({"query": {}, "body": {**body, "size": 7}}) == ("red cone", 7)
    assert reading.asked({"query": {}, "body": body}) == ("red cone", 10)
    assert reading.bounds.timeout_s == 3.0


def test_an_answer_is_read_as_the_arm_reads_it(tmp_path: Path) -> None:
    reading = http_reading(written(tmp_path))
    whole = {"state": 4, "timed_out": False, "_shards": {"failed": 0}}
    hits = [{"_id": "a", "_score": 3.0}, {"_id": 7, "_score": -1.0}]
    found = reading.answer_of({**whole, "hits": {"hits": hits}}, WHO, 10)
    assert [(hit.doc_id, hit.score, hit.raw_score) for hit in found.hits] == [
        ("a", 0.875, 3.0),
        ("7", 0.25, -1.0),
    ]
    assert reading.generation_of({**whole, "hits": {"hits": []}}) == 4
    with pytest.raises(Unreadable, match="partial answer"):
        reading.answer_of({**whole, "_shards": {"failed": 1}, "hits": {"hits": hits}}, WHO, 10)
    with pytest.raises(Unreadable, match="has no id"):
        reading.answer_of({**whole, "hits": {"hits": [{}]}}, WHO, 10)
    with pytest.raises(Unreadable, match="2 hits were shown, 1 were requested"):
        reading.answer_of({**whole, "hits": {"hits": [{}, {}]}}, WHO, 1)
    with pytest.raises(Unreadable, match="generation is None"):
        reading.generation_of({"hits": {"hits": []}})


def test_a_text_within_a_longer_value_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, '"title:${text:json}"')
    with pytest.raises(BadPolicy, match=r"\$\{text\} is part of a longer value"):
        http_reading(path)


def test_an_arm_of_another_stack_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "fts5.toml"
    path.write_text((ROOT / "engines" / "arms" / "fts5.toml").read_text("utf-8"), "utf-8")
    with pytest.raises(BadPolicy, match="is not of the stack http"):
        http_reading(path)


@pytest.mark.parametrize(
    ("name", "compared"),
    [("elasticsearch", "POST"), ("opensearch", "POST"), ("meilisearch", "POST")],
)
def test_ready_files_are_readings(name: str, compared: str) -> None:
    reading = http_reading(SERVERS / f"{name}.toml")
    assert reading.request.compared[0].startswith(f"{compared} /")
    assert reading.request.text.startswith(("/body/", "/query/"))
