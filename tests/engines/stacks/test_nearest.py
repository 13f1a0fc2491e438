"""``stacks.text.nearest``: hits of the exact scan where the graph looks far enough; faults."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engines import registry
from engines.registry import Arm
from engines.stacks.text.nearest import GRAPH
from harness.check.checks import check
from harness.core.errors import BadPolicy, IndexNotReady, NotInstalled
from harness.core.records import Document
from tests.source import ROOT

EXAMPLES = ROOT / "examples" / "nearest"
DOCUMENTS = [
    Document(f"d{at:04}", f"cone {at % 7} red", f"cube {at % 11} blue {at % 13} sand {at}")
    for at in range(600)
]
QUERIES = [f"blue {at % 13} cube {at % 11} cone" for at in range(20)]


def arm(folder: Path, stack: str, lines: str = "") -> Arm:
    path = folder / f"{stack}.toml"
    usual = 'embedder = "hash"\nmax_tokens = 64'
    path.write_text(f'summary = "x"\nstack = "{stack}"\n[settings]\n{usual}\n{lines}', "utf-8")
    return registry.load(str(path), folder)


def shown(of: Arm, index: Path, k: int = 10) -> list[list[tuple[str, float]]]:
    with of.open(index) as searcher:
        found = [searcher.search(text, k).hits for text in QUERIES]
    return [[(hit.doc_id, hit.raw_score) for hit in hits] for hits in found]


def test_a_graph_that_looks_at_all_gives_what_the_scan_gives(tmp_path: Path) -> None:
    pytest.importorskip("usearch", reason='needs the extra "nearest"')
    built = {}
    for stack, lines in (("dense", ""), ("nearest", "searching = 600")):
        index = tmp_path / f"{stack}-index"
        index.mkdir()
        of = arm(tmp_path, stack, lines)
        of.build(DOCUMENTS, index)
        built[stack] = shown(of, index)
    assert built["nearest"] == built["dense"]
    near = arm(tmp_path, "nearest", "searching = 1\nlinks = 2\nbuilding = 2")
    index = tmp_path / "near"
    index.mkdir()
    near.build(DOCUMENTS, index)
    again = tmp_path / "again"
    again.mkdir()
    near.build(DOCUMENTS[::-1], again)
    assert (again / GRAPH).read_bytes() == (index / GRAPH).read_bytes()
    overlooked = shown(near, index)
    assert overlooked != built["dense"]
    cosines = dict(pair for hits in shown(arm(tmp_path, "dense"), tmp_path / "dense-index", 600)[:1]
                   for pair in hits)  # fmt: skip
    assert all(cosines[doc_id] == cosine for doc_id, cosine in overlooked[0])


def test_a_damaged_graph_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("usearch", reason='needs the extra "nearest"')
    index = tmp_path / "index"
    index.mkdir()
    of = arm(tmp_path, "nearest")
    of.build(DOCUMENTS[:5], index)
    (index / GRAPH).write_bytes(b"no graph")
    with pytest.raises(IndexNotReady, match="Build it again"), of.open(index):
        pass
    with pytest.raises(BadPolicy, match="building is below links"):
        arm(tmp_path, "nearest", "links = 16\nbuilding = 4")


@pytest.mark.slow
def test_it_keeps_the_contract(tmp_path: Path) -> None:
    pytest.importorskip("usearch", reason='needs the extra "nearest"')
    found = check(str(EXAMPLES / "nearest-hash.toml"), tmp_path / "cache")
    assert found.holds, [str(one) for one in found.findings if one.broken]


def test_without_the_extra_it_is_said_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "usearch", None)
    with pytest.raises(NotInstalled, match=r'pip install "search-harness\[nearest\]"'):
        arm(tmp_path, "nearest")
