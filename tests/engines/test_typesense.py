"""The stack typesense: what is sent, what a file may say, and what a fault of a node does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.replay.drive import TimedOutcome, observe
from harness_engines.lexical.grammar import exact_clauses as clauses
from harness_engines.stacks.typesense import arm
from harness_engines.stacks.typesense.arm import Typesense, TypesenseSearcher, TypesenseSettings
from tests.engines.typesense_fake import KEY, Node, serving
from tests.make.search_server import Fault, body, half, status


@pytest.mark.parametrize(
    ("text", "wanted", "must"),
    [
        ("red cone", "red cone", ""),
        ('"red cone" x', '"red cone" x', ""),
        ("read_csv", "read csv", ""),
        ("+red cone -blue", "red cone -blue", "(title:`red` || text:`red`)"),
        ("cone -read_csv", 'cone -"read csv"', ""),
        ("`) || *", "", ""),
        ("\U0001f600", "", ""),
    ],
)
def test_a_text_becomes_a_query_and_a_filter(text: str, wanted: str, must: str) -> None:
    assert arm.query(clauses(text)) == wanted
    assert arm.required(clauses(text)) == must


def test_documents_are_in_the_order_of_their_ids_and_hold_no_nul() -> None:
    documents = [Document("b", "", "x\0y"), Document("B", "t\ud800", "z", {"year": 1})]
    found = arm.lines(documents)
    assert [json.loads(line)["id"] for line in found] == ["B", "b"]
    assert '"x y"' in found[1]
    assert arm.digest_of(found) != arm.digest_of(found[:1])
    wanted = clauses(" ".join(f"+word{at}" for at in range(50)))
    assert arm.required(wanted).count("title:") == arm.MAX_MUST
    assert len(arm.query(wanted).split()) == 50


DOCUMENTS = (
    Document("b", "cone", "red", {"year": 2001}), Document("B", "cone", "red"),
    Document("c", "", "blue cube", {"year": 2002, "by": "d"}),
)  # fmt: skip
NAME = "A_SERVERS_KEY"


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Node]]:
    monkeypatch.setenv(NAME, KEY)
    with serving() as found:
        yield found


def engine(cluster: list[Node], **changed: Any) -> Typesense:  # noqa: ANN401  any value of a file
    urls = [node.url for node in cluster]
    given = {"nodes": urls, "key_env": NAME, "timeout_s": 6.0, "replicas_s": 0.2, **changed}
    return Typesense(TypesenseSettings.model_validate(given))


@contextmanager
def opened(engine: Typesense, index: Path) -> Iterator[TypesenseSearcher]:
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        assert isinstance(searcher, TypesenseSearcher)
        yield searcher


def refused(nodes: list[Node], index: Path, says: str, **changed: Any) -> None:  # noqa: ANN401
    """Check that an index is not opened."""
    with pytest.raises(IndexNotReady, match=says), engine(nodes, **changed).open(index):
        pass


def ask(searcher: TypesenseSearcher, text: str = "red cone") -> TimedOutcome:
    return observe(searcher, Query("q", text), 10, 10**10)


def test_every_node_answers_in_turn_and_ties_come_by_id(nodes: list[Node], tmp_path: Path) -> None:
    with opened(engine(nodes), tmp_path) as searcher:
        for _ in range(6):
            assert [hit.doc_id for hit in ask(searcher).row.hits] == ["B", "b"]
        assert [len(node.searches) for node in nodes] == [2, 2, 2]
        (one, two), _ = ask(searcher).row.hits, ask(searcher, "red blue cube")
        assert one.score == two.score == 1.0
        scores = [hit.score for hit in ask(searcher, "red blue cube").row.hits]
        assert scores == [1.0, 0.5, 0.5]


def test_more_hits_than_a_page_has_are_read_page_by_page(nodes: list[Node], tmp_path: Path) -> None:
    many = [Document(f"d{at:03}", "", "cone") for at in range(600)]
    engine(nodes).build(many, tmp_path)
    with engine(nodes).open(tmp_path) as searcher:
        wanted = [one.doc_id for one in many]
        for k in (1, 250, 251, 599, 700):
            assert [hit.doc_id for hit in searcher.search("cone", k).hits] == wanted[:k]


def test_what_typesense_does_not_take_is_said(nodes: list[Node], tmp_path: Path) -> None:
    with opened(engine(nodes), tmp_path) as searcher:
        for text in ("red AND (cone OR cube)", "con*", "-red"):
            found = searcher.search(text, 10)
            assert not found.hits
            assert "does not take parentheses" in found.note


def test_a_wrong_key(nodes: list[Node], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says = rf"HTTP 401 .*Forbidden: \*\*\* .*check the variable {NAME}"
    engine(nodes).build(DOCUMENTS, tmp_path)
    monkeypatch.setenv(NAME, "stolen-key")
    with pytest.raises(IndexNotReady, match=says) as at_build:
        engine(nodes).build(DOCUMENTS, tmp_path)
    assert "stolen-key" not in str(at_build.value)
    refused(nodes, tmp_path, says)


def test_a_collection_that_goes_is_invalid(nodes: list[Node], tmp_path: Path) -> None:
    def goes() -> None:
        with opened(engine(nodes, retries=2), tmp_path) as searcher:
            assert ask(searcher).row.status is Status.ANSWERED
            nodes[0].cluster.collections.clear()
            assert "NodesLost: HTTP 404" in ask(searcher).row.error

    with pytest.raises(InvalidArm, match=r"lost while queries ran: HTTP 404.*Nothing is scored"):
        goes()
    refused(nodes, tmp_path, r"HTTP 404.*lacks the collection", retries=2)


def test_unwritten_documents_are_waited_for(nodes: list[Node], tmp_path: Path) -> None:
    """The server was seen to count 5,183 documents while it gave 5,000."""
    nodes[2].lags = 2
    says = f"{nodes[2].url}: has 1 documents of 3: the replica lags"
    with pytest.raises(IndexNotReady, match=says):
        engine(nodes).build(DOCUMENTS, tmp_path)
    nodes[2].lags, nodes[1].unwritten = 0, 2
    engine(nodes, replicas_s=1.0).build(DOCUMENTS, tmp_path)
    assert nodes[1].unwritten == 0
    nodes[1].lags = 1
    refused(nodes, tmp_path, "has 2 documents of 3: the replica lags", replicas_s=1.0)
    nodes[1].lags, nodes[1].unwritten = 0, 99
    refused(nodes, tmp_path, "has 2 documents of 3: the replica lags", replicas_s=1.0)


def test_no_answer_of_a_replica_that_lags_counts(nodes: list[Node], tmp_path: Path) -> None:
    with opened(engine(nodes), tmp_path) as searcher:
        nodes[0].lags = 3
        seen = [ask(searcher) for _ in range(6)]
        assert all(len(one.row.hits) == 2 for one in seen)
        assert [one.retries for one in seen] == [1, 0, 0, 0, 0, 0]
        nodes[0].lags = 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        status(503, '{"message": "Not Ready or Lagging"}'), half, body(b'{"results": ['),
    ],
    ids=["503", "half", "not JSON"],
)  # fmt: skip
def test_a_failing_node_is_counted(fault: Fault, nodes: list[Node], tmp_path: Path) -> None:
    with opened(engine(nodes), tmp_path) as searcher:
        nodes[0].faults = [fault]
        nodes[1].faults = [fault]
        seen = ask(searcher)
        assert (seen.row.status, seen.retries, len(seen.row.hits)) == (Status.ANSWERED, 2, 2)
        assert ask(searcher).retries == 0


def test_two_of_three_that_die_make_the_arm_invalid(nodes: list[Node], tmp_path: Path) -> None:
    def dies() -> None:
        with opened(engine(nodes), tmp_path) as searcher:
            nodes[1].gone = nodes[2].gone = True
            assert ask(searcher).row.status is Status.ANSWERED

    with pytest.raises(InvalidArm, match=r"2 of 3 nodes are gone"):
        dies()


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ({"code": 400, "error": "no"}, "HTTP 400"),
        ({"out_of": 3, "search_cutoff": True, "hits": []}, "a partial answer"),
        (
            {"out_of": 3, "search_cutoff": False, "hits": [{"document": {}}]},
            "a hit is not one of Typesense",
        ),
    ],
    ids=["refused", "partial", "hit without id"],
)
def test_a_failed_query(
    result: dict[str, Any], says: str, nodes: list[Node], tmp_path: Path
) -> None:
    with opened(engine(nodes), tmp_path) as searcher:
        nodes[0].faults = [body(json.dumps({"results": [result]}).encode())]
        seen = ask(searcher)
        assert (seen.row.status, seen.retries) == (Status.FAILED, 0)
        assert says in seen.row.error


def test_nodes_of_two_versions_are_refused(nodes: list[Node], tmp_path: Path) -> None:
    nodes[1].version = "29.0"
    with pytest.raises(IndexNotReady, match=r"the nodes differ: .*0\.24\.1, .*runs 29\.0"):
        engine(nodes).build(DOCUMENTS, tmp_path)
    for node in nodes:
        node.version = "0.24.1"

    def changes() -> None:
        with opened(engine(nodes), tmp_path):
            nodes[2].version = "29.0"

    with pytest.raises(InvalidArm, match=r"ran Typesense 0\.24\.1, and runs 29\.0"):
        changes()


def test_a_document_that_is_not_taken_is_named(nodes: list[Node], tmp_path: Path) -> None:
    nodes[0].refuses = "B"
    with pytest.raises(IndexNotReady, match=r"cannot be loaded: .*the document 'B' is not taken"):
        engine(nodes).build(DOCUMENTS, tmp_path)
    nodes[0].refuses = "all"
    with pytest.raises(IndexNotReady, match="answered 0 lines to 3 documents"):
        engine(nodes).build(DOCUMENTS, tmp_path)
    assert not (tmp_path / "manifest.json").exists()
