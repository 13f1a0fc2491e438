"""``harness notes``, ``code`` and ``docs``: index, ask and serve, as a person does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.moving_folders import moved
from engines import registry as arms
from engines.kept.kit import CODE, KITS, NOTES
from engines.kept.listing import Fault
from engines.stacks.code.arm import Code
from engines.stacks.remote.mcp import Connection, ToolFailed, connected
from engines.stacks.writing.arm import Writing
from harness.cli import folders
from harness.core.errors import IndexNotReady
from tests.cli.conftest import Harness
from tests.make.mail.project import BOUNDED_S, listening
from tests.make.toy import Toy
from tests.programs import PYTHON

pytestmark = pytest.mark.slow
ARMS = {"notes": "writing-stems", "code": "code-words", "docs": "documents-bm25"}
TEXT = "# The harbour\n\nBoats wait for the tide.\n"


@pytest.fixture
def root(project: Toy) -> Path:
    made = project.root / "mine"
    made.mkdir()
    (made / "harbour.md").write_text(TEXT)
    (made / "moon.md").write_text("# The moon\n\nIt pulls the sea. Boats know.\n")
    return made


@pytest.mark.parametrize("stack", ARMS)
def test_a_folder_is_indexed_asked_and_followed(harness: Harness, root: Path, stack: str) -> None:
    arm = ("--arm", ARMS[stack])
    said = harness(stack, "index", "mine", *arm)
    assert (said.code, said.out) == (0, "files: 2 read, 0 removed, 0 unchanged\n")
    said = harness(stack, "ask", "mine", "boats -moon", *arm)
    assert "harbour.md" in said.out
    assert "moon.md" not in said.out
    assert said.err == ""
    (root / "net.md").write_text("# Nets\n\nBoats have nets.\n")
    (root / "moon.md").unlink()
    assert "net.md" not in harness(stack, "ask", "mine", "nets", *arm, "--no-update").out
    said = harness(stack, "ask", "mine", "nets", *arm)
    assert said.err.splitlines()[-1] == "files: 1 read, 1 removed, 1 unchanged"
    assert "net.md" in said.out
    assert "contain the text as it was typed" in harness(stack, "ask", "mine", "arbou", *arm).out
    assert "nothing is found" in harness(stack, "ask", "mine", "nowhere", *arm).out


@pytest.mark.parametrize("stack", ARMS)
def test_a_folder_without_files_is_told_what_is_read(
    harness: Harness, root: Path, stack: str
) -> None:
    for name in ("harbour.md", "moon.md"):
        (root / name).rename(root / f"{name}.bak")
    for words in (("index", "mine"), ("ask", "mine", "boats")):
        said = harness(stack, *words, "--arm", ARMS[stack])
        assert said.code == 0
        assert said.err.startswith("the folder has no file that is read: ")
        assert ".md" in said.err


@pytest.mark.parametrize("stack", ARMS)
def test_a_text_that_is_taken_for_an_option_is_told_its_place(
    harness: Harness, root: Path, stack: str
) -> None:
    arm = ("--arm", ARMS[stack])
    said = harness(stack, "ask", "mine", "-moon", *arm)
    assert said.code == 2
    assert "stands after --" in " ".join(said.err.replace("│", " ").split())
    assert "stands after --" not in harness(stack, "ask", "mine", "moon", "--tpo").err
    assert "harbour.md" in harness(stack, "ask", "mine", *arm, "--", "-moon").out
    assert root.is_dir()


@pytest.mark.parametrize("stack", ARMS)
def test_json_is_what_the_service_answers(harness: Harness, root: Path, stack: str) -> None:
    arm = ("--arm", ARMS[stack])
    (root / "bad.md").write_bytes(b"\xff\xfe\xff")
    told = json.loads(harness(stack, "index", "mine", *arm, "--json").out)
    assert (told["read"], [one["path"] for one in told["faults"]]) == (2, ["bad.md"])
    answer = json.loads(harness(stack, "ask", "mine", "tide", *arm, "--json", "--explain").out)
    assert "harbour.md" in json.dumps(answer)


def test_many_files_with_one_fault_are_one_line() -> None:
    many = [Fault(f"{name}.go", "is go. Run: this") for name in "abcd"]
    few = [Fault("e.md", "is not UTF-8"), Fault("f.md", "is not UTF-8")]
    assert folders.grouped([*many, *few]) == [
        "4 files, such as a.go: is go. Run: this", "e.md: is not UTF-8", "f.md: is not UTF-8",
    ]  # fmt: skip


def test_a_language_is_searched_with_its_filters(harness: Harness, root: Path) -> None:
    pytest.importorskip("tree_sitter_go", reason='needs the extra "languages"')
    (root / "shop.go").write_text("package shop\n\nfunc Total() int { return part() }\n")
    arm = ("--arm", ARMS["code"])
    said = harness("code", "ask", "mine", "total", "--lang", "go", "--calls", "part", *arm)
    assert "shop.go:3-3  function shop.Total" in said.out
    assert "func Total() int" in said.out


def test_the_defaults_are_the_arms_of_the_pages() -> None:
    assert [one.arm for one in KITS] == ["writing-notes", "code-mixed", "documents-free-words"]


def test_a_default_cuts_notes_and_ranks_all_modes_together(tmp_path: Path) -> None:
    by_notes, by_code = arms.load(NOTES.arm, tmp_path).engine, arms.load(CODE.arm, tmp_path).engine
    assert isinstance(by_notes, Writing)
    assert isinstance(by_code, Code)
    assert by_notes.settings.chunk_characters == 2_000
    assert (by_code.settings.mode, by_code.settings.mixed) == ("mixed", "scores")


def test_what_each_group_takes_reaches_the_answer(harness: Harness, root: Path) -> None:
    (root / "till.py").write_text("def pay(sum: int) -> int:\n    return count(sum)\n")
    (root / "bank.py").write_text("from till import pay\n\n\ndef main():\n    pay(1)\n")
    words = ("code", "ask", "mine", "pay", "--arm", "code-words")
    found = harness(*words, "--type", "function", "--top", "1", "--context", "2", "--explain").out
    assert found.startswith("1. till.py:1-2  function till.pay")
    assert "context: bank.py:4-5  function bank.main  call of till.py::pay" in found
    assert '"selected"' in found
    assert "till.py" not in harness(*words, "--path", "bank").out
    prose = harness("code", "ask", "mine", "tide", "--arm", "code-words").out
    assert "Boats wait for the tide." in prose
    assert "--risk: is 'huge'" in harness(*words, "--risk", "huge").error
    asked = ("docs", "ask", "mine", "boats", "--arm", "documents-bm25")
    assert "harbour.md" not in harness(*asked, "--document", "moon.md").out
    assert "no document named 'x.md'" in harness(*asked, "--document", "x.md").error
    assert "bm25 1" in harness(*asked, "--explain", "--related", "2").out
    typed = ("notes", "ask", "mine", "boats", "--arm", "writing-stems", "--explain")
    said = harness(*typed, "--limit", "1", "--budget", "50", "--title", "nets").out
    assert said.count(", chunk 0") == 1
    assert "BM25 share" in said


def test_settings_of_an_arm_are_set_by_options(harness: Harness, root: Path) -> None:
    (root / "tide.md").write_text("# Boats\n\nBoats and boats of boats.\n")
    words = ("code", "ask", "mine", "boats wait", "--arm", "code-words", "--explain")
    weights = '"weights": {"name": 9, "signature": 1, "doc": 2, "comment": 1, "body": 1}'
    said = harness(*words, "--set", "fields.name=9", "--set", "search.rrf.k=5")
    assert weights in said.out, said
    assert weights not in harness(*words).out
    assert (
        "no setting of the arm named 'fields.nme'" in harness(*words, "--set", "fields.nme=9").error
    )
    assert "mode" in harness(*words, "--set", "mode=poetry").error


@pytest.mark.parametrize("stack", ARMS)
def test_what_is_wrong_is_named(harness: Harness, root: Path, stack: str) -> None:
    other = "fts5"
    assert (
        f"{other} is not an arm of the stack"
        in harness(stack, "index", "mine", "--arm", other).error
    )
    assert "is not a folder" in harness(stack, "index", "params.yaml").error
    assert root.is_dir()


def test_an_index_lies_below_the_cache(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)
    place = folders.place_of("docs", Path("mine"))
    assert place.is_relative_to(root.parent / ".cache" / "kept" / "docs")
    assert place == folders.place_of("docs", root)


CALLS: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "notes": ("rag_retrieve", {"queryText": "tide"}, "items"),
    "code": ("search_code", {"query": "tide", "ext": "md", "explain": True}, "hits"),
    "docs": ("search_collection", {"query": "tide", "top_k": 1}, "results"),
}


def command(stack: str, *more: str) -> list[str]:
    return [*PYTHON, stack, "serve", "mine", "--arm", ARMS[stack], *more]


def check(to: Connection, stack: str, root: Path) -> None:
    tool, given, key = CALLS[stack]
    assert "harbour.md" in json.dumps(to.call(tool, given)[key])
    with pytest.raises(ToolFailed, match="INVALID_ARGUMENT"):
        to.call(tool, {**given, "unknown": 1})
    (root / "harbour.md").write_text("# The harbour\n\nIt is empty.\n")
    assert not to.call(tool, given)[key]
    shutil.rmtree(root)
    with pytest.raises(ToolFailed, match=r"FAILED: .*is not a folder"):
        to.call(tool, given)


@pytest.mark.parametrize("stack", ["docs"])
def test_over_http_a_client_needs_the_token_and_sees_the_folder_as_it_is(
    root: Path, stack: str
) -> None:
    with listening(command(stack, "--http", "0"), root.parent) as (url, _):
        with connected([], url, BOUNDED_S) as to:
            check(to, stack, root)
        bare = url.partition("?")[0]
        with pytest.raises(IndexNotReady, match="no MCP server"), connected([], bare, BOUNDED_S):
            pass


@pytest.mark.parametrize("stack", ["notes", "code"])
def test_over_stdio_a_client_sees_the_folder_as_it_is(
    root: Path, stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    with connected(command(stack), "", BOUNDED_S) as to:
        check(to, stack, root)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("minutes", [0.05, 0.5])
def test_served_folders_answer_rightly_while_their_files_change(minutes: float) -> None:
    tally = moved(minutes, seed=2)
    assert tally.wrong == []
    assert tally.offered == set(tally.calls)
    assert len(tally.offered) == len(ARMS)
