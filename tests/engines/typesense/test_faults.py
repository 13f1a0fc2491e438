"""``stacks.typesense``, its ``nodes`` and ``loading``: what a fault of a node says and does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engines.stacks.typesense.arm import Settings, Typesense, TypesenseSearcher
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.replay.drive import TimedOutcome, observe
from tests.engines.typesense.fake import KEY, Node, serving
from tests.make.search_server import Fault, body, half, slow, status

DOCUMENTS = (
    Document("b", "cone", "red", {"year": 2001}), Document("B", "cone", "red"),
    Document("c", "", "blue cube", {"year": 2002, "by": "d"}),
)  # fmt: skip
NAME = "A_SERVERS_KEY"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Node]]:
    monkeypatch.setenv(NAME, KEY)
    with serving() as found:
        yield found


def engine(cluster: list[Node], **changed: Any) -> Typesense:  # noqa: ANN401  any value of a file
    urls = [node.url for node in cluster]
    given = {"nodes": urls, "key_env": NAME, "timeout_s": 6.0, "replicas_s": 0.2, **changed}
    return Typesense(Settings.model_validate(given))


@contextmanager
def opened(engine: Typesense, index: Path) -> Iterator[TypesenseSearcher]:
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        assert isinstance(searcher, TypesenseSearcher)
        yield searcher


def ask(searcher: TypesenseSearcher, text: str = "red cone") -> TimedOutcome:
    return observe(searcher, Query("q", text), 10, 10**10)


def test_every_node_answers_in_turn_and_ties_come_by_id(
    cluster: list[Node], tmp_path: Path
) -> None:
    with opened(engine(cluster), tmp_path) as searcher:
        for _ in range(6):
            assert [hit.doc_id for hit in ask(searcher).row.hits] == ["B", "b"]
        assert [len(node.searches) for node in cluster] == [2, 2, 2]
        (one, two), _ = ask(searcher).row.hits, ask(searcher, "red blue cube")
        assert one.score == two.score == 1.0
        scores = [hit.score for hit in ask(searcher, "red blue cube").row.hits]
        assert scores == [1.0, 0.5, 0.5]


def test_more_hits_than_a_page_has_are_read_page_by_page(
    cluster: list[Node], tmp_path: Path
) -> None:
    many = [Document(f"d{at:03}", "", "cone") for at in range(600)]
    engine(cluster).build(many, tmp_path)
    with engine(cluster).open(tmp_path) as searcher:
        wanted = [one.doc_id for one in many]
        for k in (1, 250, 251, 599, 700):
            assert [hit.doc_id for hit in searcher.search("cone", k).hits] == wanted[:k]


def test_what_typesense_does_not_take_is_said(cluster: list[Node], tmp_path: Path) -> None:
    with opened(engine(cluster), tmp_path) as searcher:
        for text in ("red AND (cone OR cube)", "con*", "-red"):
            found = searcher.search(text, 10)
            assert not found.hits
            assert "does not take parentheses" in found.note


def test_a_wrong_key_names_its_variable_and_not_the_key(
    cluster: list[Node], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = rf"HTTP 401 .*Forbidden: \*\*\* .*check the variable {NAME}"
    engine(cluster).build(DOCUMENTS, tmp_path)
    monkeypatch.setenv(NAME, "stolen-key")
    with pytest.raises(IndexNotReady, match=says) as at_build:
        engine(cluster).build(DOCUMENTS, tmp_path)
    with pytest.raises(IndexNotReady, match=says) as at_open, engine(cluster).open(tmp_path):
        pass
    assert "stolen-key" not in f"{at_build.value} {at_open.value}"


def test_a_collection_that_is_gone_is_refused(cluster: list[Node], tmp_path: Path) -> None:
    engine(cluster).build(DOCUMENTS, tmp_path)
    cluster[0].cluster.collections.clear()
    with (
        pytest.raises(IndexNotReady, match=r"HTTP 404.*lacks the collection"),
        engine(cluster).open(tmp_path),
    ):
        pass


def test_a_collection_that_goes_while_queries_run_makes_the_arm_invalid(
    cluster: list[Node], tmp_path: Path
) -> None:
    def goes() -> None:
        with opened(engine(cluster, retries=2), tmp_path) as searcher:
            assert ask(searcher).row.status is Status.ANSWERED
            cluster[0].cluster.collections.clear()
            assert "Lost: HTTP 404" in ask(searcher).row.error

    with pytest.raises(InvalidArm, match=r"lost while queries ran: HTTP 404.*Nothing is scored"):
        goes()


def test_a_replica_that_lags_is_waited_for_and_then_named(
    cluster: list[Node], tmp_path: Path
) -> None:
    cluster[2].lags = 2
    says = f"{cluster[2].url}: has 1 documents of 3: the replica lags"
    with pytest.raises(IndexNotReady, match=says):
        engine(cluster).build(DOCUMENTS, tmp_path)
    cluster[2].lags = 0
    engine(cluster).build(DOCUMENTS, tmp_path)
    cluster[1].lags = 1
    with (
        pytest.raises(IndexNotReady, match="has 2 documents of 3: the replica lags"),
        engine(cluster).open(tmp_path),
    ):
        pass


def test_documents_that_are_counted_and_not_yet_written_are_waited_for(
    cluster: list[Node], tmp_path: Path
) -> None:
    """The server was seen to count 5,183 documents while it gave 5,000."""
    cluster[1].unwritten = 2
    engine(cluster, replicas_s=1.0).build(DOCUMENTS, tmp_path)
    assert cluster[1].unwritten == 0
    cluster[1].unwritten = 99
    with (
        pytest.raises(IndexNotReady, match="has 2 documents of 3: the replica lags"),
        engine(cluster, replicas_s=1.0).open(tmp_path),
    ):
        pass


def test_no_answer_of_a_replica_that_lags_counts(cluster: list[Node], tmp_path: Path) -> None:
    with opened(engine(cluster), tmp_path) as searcher:
        cluster[0].lags = 3
        seen = [ask(searcher) for _ in range(6)]
        assert all(len(one.row.hits) == 2 for one in seen)
        assert [one.retries for one in seen] == [1, 0, 0, 0, 0, 0]
        cluster[0].lags = 0


@pytest.mark.parametrize(
    "fault",
    [
        status(500, "broken"), status(503, '{"message": "Not Ready or Lagging"}'), status(429),
        half, body(b'{"results": ['), body(b"[]"), body(b'{"results": [{}]}'),
    ],
    ids=["500", "503", "429", "half", "not JSON", "a list", "empty"],
)  # fmt: skip
def test_a_node_that_fails_is_passed_over_and_counted(
    fault: Fault, cluster: list[Node], tmp_path: Path
) -> None:
    with opened(engine(cluster), tmp_path) as searcher:
        cluster[0].faults = [fault]
        cluster[1].faults = [fault]
        seen = ask(searcher)
        assert (seen.row.status, seen.retries, len(seen.row.hits)) == (Status.ANSWERED, 2, 2)
        assert ask(searcher).retries == 0


def test_nodes_that_fail_for_good_make_the_arm_invalid(cluster: list[Node], tmp_path: Path) -> None:
    def fails() -> None:
        with opened(engine(cluster, retries=4), tmp_path) as searcher:
            for node in cluster:
                node.forever = status(503, "Not Ready or Lagging")
            seen = ask(searcher)
            assert seen.row.status is Status.FAILED
            assert "Lost: HTTP 503" in seen.row.error
            assert "(attempts: 5)" in seen.row.error
            for node in cluster:
                node.forever = None
            assert ask(searcher).row.status is Status.ANSWERED

    with pytest.raises(InvalidArm, match=r"was lost while queries ran: HTTP 503.*Nothing is scor"):
        fails()


def test_a_follower_that_dies_costs_no_answer(cluster: list[Node], tmp_path: Path) -> None:
    with opened(engine(cluster), tmp_path) as searcher:
        cluster[1].gone = True
        seen = [ask(searcher) for _ in range(9)]
        assert all(len(one.row.hits) == 2 for one in seen)
        assert sum(one.retries for one in seen) == 1


def test_two_of_three_that_die_make_the_arm_invalid(cluster: list[Node], tmp_path: Path) -> None:
    def dies() -> None:
        with opened(engine(cluster), tmp_path) as searcher:
            cluster[1].gone = cluster[2].gone = True
            assert ask(searcher).row.status is Status.ANSWERED

    with pytest.raises(InvalidArm, match=r"2 of 3 nodes are gone"):
        dies()


def test_slow_nodes_are_a_late_query_and_not_an_empty_answer(
    cluster: list[Node], tmp_path: Path
) -> None:
    with opened(engine(cluster, timeout_s=0.3), tmp_path) as searcher:
        for node in cluster:
            node.faults = [slow(0.5)]
        seen = ask(searcher)
        assert seen.row.status is Status.FAILED
        assert "no whole answer within 0." in seen.row.error
        assert "TimeoutError: " in seen.row.error
        assert "attempts: 3, timeout_s = 0.3" in seen.row.error
        cluster[0].faults = cluster[1].faults = cluster[2].faults = []


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (body(json.dumps({"results": [{"code": 400, "error": "no"}]}).encode()), "HTTP 400"),
        (
            body(
                json.dumps({"results": [{"out_of": 3, "search_cutoff": True, "hits": []}]}).encode()
            ),
            "a partial answer",
        ),
        (
            body(
                json.dumps({
                    "results": [{"out_of": 3, "search_cutoff": False, "hits": [{"document": {}}]}]
                }).encode()
            ),
            "a hit is not one of Typesense",
        ),
    ],
    ids=["refused", "partial", "hit without id"],
)
def test_what_no_node_would_answer_better_is_a_failed_query(
    fault: Fault, says: str, cluster: list[Node], tmp_path: Path
) -> None:
    with opened(engine(cluster), tmp_path) as searcher:
        cluster[0].faults = [fault]
        seen = ask(searcher)
        assert (seen.row.status, seen.retries) == (Status.FAILED, 0)
        assert says in seen.row.error


def test_documents_that_change_are_seen_on_whichever_node(
    cluster: list[Node], tmp_path: Path
) -> None:
    def moves() -> None:
        with opened(engine(cluster), tmp_path) as searcher:
            (lines,) = cluster[0].cluster.collections.values()
            lines[0] = lines[0].replace("red", "rot")
            assert ask(searcher).row.status is Status.ANSWERED

    with pytest.raises(InvalidArm, match=r"moved while queries ran.*holds other documents"):
        moves()
    with (
        pytest.raises(IndexNotReady, match="holds other documents than were loaded"),
        engine(cluster).open(tmp_path),
    ):
        pass


def test_nodes_of_two_versions_are_refused(cluster: list[Node], tmp_path: Path) -> None:
    cluster[1].version = "29.0"
    with pytest.raises(IndexNotReady, match=r"the nodes differ: .*0\.24\.1, .*runs 29\.0"):
        engine(cluster).build(DOCUMENTS, tmp_path)
    for node in cluster:
        node.version = "0.24.1"

    def changes() -> None:
        with opened(engine(cluster), tmp_path):
            cluster[2].version = "29.0"

    with pytest.raises(InvalidArm, match=r"ran Typesense 0\.24\.1, and runs 29\.0"):
        changes()


def test_a_document_that_is_not_taken_is_named(cluster: list[Node], tmp_path: Path) -> None:
    cluster[0].refuses = "B"
    with pytest.raises(IndexNotReady, match=r"cannot be loaded: .*the document 'B' is not taken"):
        engine(cluster).build(DOCUMENTS, tmp_path)
    cluster[0].refuses = "all"
    with pytest.raises(IndexNotReady, match="answered 0 lines to 3 documents"):
        engine(cluster).build(DOCUMENTS, tmp_path)
    assert not (tmp_path / "manifest.json").exists()
