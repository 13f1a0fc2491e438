"""``stacks.xapian``: its contract, its shards, and what is said where a part of it is missing."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import psutil
import pytest

from engines import registry
from engines.registry import Arm
from engines.stacks.xapian import debian, serving, shards
from engines.stacks.xapian.arm import Xapian
from engines.stacks.xapian.settings import Settings
from harness.core.batches.mapping import using
from harness.core.batches.processes import processes
from harness.core.errors import IndexNotReady, InvalidArm, ModelNotReady
from harness.core.records import Document
from harness.stages.contract.stage import check
from harness.stages.index import index
from harness.stages.replay.stage import replay
from tests.make.toy import Toy
from tests.source import ROOT

EXAMPLES = ROOT / "examples" / "xapian"
DOCUMENTS = (
    Document("b", "cone", "red"), Document("B", "cone", "red"), Document("c", "", "blue cubes"),
    Document("d", "pandas.read_csv", "reads a table"), Document("e", "", ""),
    Document("f", "cone", "and more of the same"), Document("g", "", "naïve 検索エンジン"),
)  # fmt: skip
HERE = bool(
    (find_spec("xapian") or (debian.PACKAGES / "xapian").is_dir())
    and which(debian.SERVER)
    and which(debian.LEASH)
)
live = pytest.mark.skipif(not HERE, reason="needs the packages python3-xapian and xapian-tools")
UUID = slice(16, 32)
"""Of a shard's file: drawn anew for each."""


def arm(folder: Path, lines: str = "") -> Arm:
    path = folder / "mine.toml"
    path.write_text(f'summary = "x"\nstack = "xapian"\n[settings]\n{lines}\n', "utf-8")
    return registry.load(str(path), folder / "cache")


def built(made: Arm, at: Path) -> Path:
    at.mkdir()
    made.build(DOCUMENTS, at)
    return at


def servers() -> list[psutil.Process]:
    found = psutil.Process().children(recursive=True)
    return [one for one in found if debian.SERVER in " ".join(one.cmdline())]


@live
@pytest.mark.slow
def test_it_keeps_the_contract(tmp_path: Path) -> None:
    found = check(str(EXAMPLES / "xapian-english.toml"), tmp_path / "cache")
    assert found.holds, [str(one) for one in found.findings if one.broken]


@live
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("red cone", ["B", "b", "f"]),
        ("cube", ["c"]),
        ('"read csv"', ["d"]),
        ("read_csv", ["d"]),
        ('"cone red"', []),
        ("+cone -red", ["f"]),
        ("cone AND more", ["f"]),
        ("NAÏVE", ["g"]),
        ("エンジン", ["g"]),
        ("!!!", []),
    ],
)
def test_what_a_text_finds(tmp_path: Path, text: str, wanted: list[str]) -> None:
    made = arm(tmp_path, 'stemmer = "english"')
    with made.open(built(made, tmp_path / "index")) as searcher:
        assert [hit.doc_id for hit in searcher.search(text, 10).hits] == wanted


@live
def test_the_number_of_shards_changes_no_hit_and_no_score(tmp_path: Path) -> None:
    def hits(count: int) -> list[tuple[Any, ...]]:
        made = arm(tmp_path, f"shards = {count}")
        with made.open(built(made, tmp_path / f"index-{count}")) as searcher:
            texts = ("red cone", "cone", "blue table cubes", "of the same red cone reads")
            return [searcher.search(text, k).hits for text in texts for k in (1, 2, 10)]

    assert hits(1) == hits(2) == hits(3)
    assert any(hits for hits in hits(9))


@live
@pytest.mark.slow
def test_shards_and_runs_of_two_processes_are_those_of_one(
    project: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, path = project.layout, str(EXAMPLES / "xapian.toml")

    def made(cache: Path) -> list[bytes]:
        index(layout, path, cache)
        replay(layout, path, cache, project.params.replay)
        assert not [*(cache / shards.FOLDER).iterdir()]
        files = [(layout.index("xapian") / name).read_bytes() for name in shards.names(2)]
        whole = [file.replace(file[UUID], bytes(16), 1) for file in files]
        return [*whole, layout.run("xapian").read_bytes(), layout.again("xapian").read_bytes()]

    alone = made(tmp_path / "one")
    with processes(2, tmp_path / "exchanged", print) as pool, using(pool):
        monkeypatch.setattr(shards.Sharding, "_document", None)  # this process builds no shard
        assert made(tmp_path / "two") == alone


@live
def test_a_shard_that_was_built_is_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    honest = shards.Sharding.__call__

    def dies(sharding: shards.Sharding, rows: Any, beside: Path) -> Any:  # noqa: ANN401
        asked.append(len(rows))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return honest(sharding, rows, beside)

    monkeypatch.setattr(shards.Sharding, "__call__", dies)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    made = arm(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        built(made, tmp_path / "killed")
    with made.open(built(made, tmp_path / "index")) as searcher:
        assert [hit.doc_id for hit in searcher.search("cubes", 5).hits] == ["c"]
    assert asked == [4, 3, 3]


@live
def test_settings_count_and_another_index_is_refused(tmp_path: Path) -> None:
    made = arm(tmp_path, "title_weight = 0")
    assert made.shared
    assert isinstance(made.engine, Xapian)
    at = built(made, tmp_path / "index")
    with made.open(at) as searcher:
        assert not searcher.search("cone", 5).hits
    with pytest.raises(IndexNotReady, match="settings_sha256"), arm(tmp_path).open(at):
        pass


def _without(at: Path) -> None:
    (at / "shard-01.glass").unlink()


def _foreign(at: Path) -> None:
    (at / "shard-01.glass").write_bytes((at / "shard-00.glass").read_bytes())


def _no_shard(at: Path) -> None:
    (at / "shard-01.glass").write_bytes(b"nothing")


@live
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_without, "shard-01.glass: xapian-tcpsrv does not start .*Build it again"),
        (_no_shard, "shard-01.glass: xapian-tcpsrv does not start .*Build it again"),
        (_foreign, "the index holds 8"),
    ],
)
def test_a_damaged_index_is_refused_and_no_server_stays(
    tmp_path: Path, damage: Callable[[Path], None], says: str
) -> None:
    made = arm(tmp_path)
    at = built(made, tmp_path / "index")
    damage(at)
    with pytest.raises(IndexNotReady, match=says), made.open(at):
        pass
    assert not servers()


@live
def test_a_shard_that_is_killed_makes_the_arm_invalid(tmp_path: Path) -> None:
    made = arm(tmp_path)
    at = built(made, tmp_path / "index")

    def loses() -> None:
        with made.open(at) as searcher:
            assert searcher.search("cone", 5).hits
            first, _ = servers()
            os.kill(first.pid, signal.SIGKILL)
            with pytest.raises(ConnectionError):
                searcher.search("cone", 5)

    with pytest.raises(
        InvalidArm, match=r"a shard was lost while queries ran: .*Nothing is scored"
    ):
        loses()
    assert not servers()


@live
def test_no_one_else_can_connect(tmp_path: Path) -> None:
    made = arm(tmp_path, "shards = 1")
    at = built(made, tmp_path / "index")
    xapian = debian.binding()
    with serving.served([at / "shard-00.glass"]) as (port,):
        first = xapian.remote_open(serving.HOST, port, 1000, 1000)
        with pytest.raises(xapian.NetworkError):
            xapian.remote_open(serving.HOST, port, 200, 200)
        assert first.get_doccount() == len(DOCUMENTS)


def test_where_the_binding_is_missing_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xapian", None)
    monkeypatch.setattr(debian, "PACKAGES", tmp_path)
    with pytest.raises(ModelNotReady, match=r"missing\. Install Xapian: apt install") as caught:
        arm(tmp_path)
    assert isinstance(caught.value, InvalidArm)
    (tmp_path / "xapian").mkdir()
    (tmp_path / "xapian" / "__init__.py").write_text("from . import _absent\n")
    with pytest.raises(ModelNotReady, match=r"built for another Python than this one, 3\.\d+"):
        debian.binding()
    assert "xapian" not in sys.modules


def test_a_program_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ModelNotReady, match=r"xapian-tcpsrv: not found. Install Xapian: apt"):
        debian.program(debian.SERVER)


def test_a_setting_that_is_wrong_is_refused() -> None:
    with pytest.raises(ValueError, match="less than or equal to 64"):
        Settings(shards=65)
