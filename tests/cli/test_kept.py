"""Commands of kept folders, and each way to a promise."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import pytest
from mcp import Client
from mcp.server.lowlevel import Server

from benchmarks.moving_folders import moved
from harness.cli import folders
from harness.cli.exit_codes import CALLED
from harness.cli.folders import AFTER, BEFORE, around
from harness.core.errors import IndexNotReady
from harness.core.reading import Malformed
from harness_engines import registry as arms
from harness_engines.kept.kit import CODE, DOCUMENTS, KITS, NOTES
from harness_engines.kept.listing import UnreadFile
from harness_engines.stacks.code.arm import Code
from harness_engines.stacks.code.reading import documents
from harness_engines.stacks.remote.mcp import McpConnection, ToolFailed, connected
from harness_engines.stacks.writing.arm import Writing
from tests.cli.conftest import Harness
from tests.docs.contract import rows
from tests.docs.reached import TOOL
from tests.engines.test_kept_index import live
from tests.make.code import write_shop
from tests.make.mail_project import BOUNDED_S, listening
from tests.make.toy import Toy
from tests.programs import PYTHON

ARMS = {"notes": "writing-stems", "code": "code-words", "docs": "documents-bm25"}
TEXT = "# The harbour\n\nBoats wait for the tide.\n"


@pytest.fixture
def root(project: Toy) -> Path:
    made = project.root / "mine"
    made.mkdir()
    (made / "harbour.md").write_text(TEXT)
    (made / "moon.md").write_text("# The moon\n\nIt pulls the sea. Boats know.\n")
    return made


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("stack", ARMS)
def test_json_is_what_the_service_answers(harness: Harness, root: Path, stack: str) -> None:
    arm = ("--arm", ARMS[stack])
    (root / "bad.md").write_bytes(b"\xff\xfe\xff")
    told = json.loads(harness(stack, "index", "mine", *arm, "--json").out)
    assert (told["read"], [one["path"] for one in told["faults"]]) == (2, ["bad.md"])
    answer = json.loads(harness(stack, "ask", "mine", "tide", *arm, "--json", "--explain").out)
    assert "harbour.md" in json.dumps(answer)


@pytest.mark.slow
def test_many_files_with_one_fault_are_one_line() -> None:
    many = [UnreadFile(f"{name}.go", "is go. Run: this") for name in "abcd"]
    few = [UnreadFile("e.md", "is not UTF-8"), UnreadFile("f.md", "is not UTF-8")]
    assert folders.grouped([*many, *few]) == [
        "4 files, such as a.go: is go. Run: this", "e.md: is not UTF-8", "f.md: is not UTF-8",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_language_is_searched_with_its_filters(harness: Harness, root: Path) -> None:
    (root / "shop.go").write_text("package shop\n\nfunc Total() int { return part() }\n")
    arm = ("--arm", ARMS["code"])
    said = harness("code", "ask", "mine", "total", "--lang", "go", "--calls", "part", *arm)
    assert "shop.go:3-3  function shop.Total" in said.out
    assert "func Total() int" in said.out


@pytest.mark.slow
def test_the_defaults_are_the_arms_of_the_pages() -> None:
    assert [one.arm for one in KITS] == ["writing-notes", "code-mixed", "documents-free-words"]


@pytest.mark.slow
def test_a_default_cuts_notes_and_ranks_all_modes_together(tmp_path: Path) -> None:
    by_notes, by_code = arms.load(NOTES.arm, tmp_path).engine, arms.load(CODE.arm, tmp_path).engine
    assert isinstance(by_notes, Writing)
    assert isinstance(by_code, Code)
    assert by_notes.settings.chunk_characters == 2_000
    assert (by_code.settings.mode, by_code.settings.mixed) == ("mixed", "scores")


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("stack", ARMS)
def test_what_is_wrong_is_named(harness: Harness, root: Path, stack: str) -> None:
    other = "fts5"
    assert (
        f"{other} is not an arm of the stack"
        in harness(stack, "index", "mine", "--arm", other).error
    )
    assert "is not a folder" in harness(stack, "index", "params.yaml").error
    assert root.is_dir()


@pytest.mark.slow
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


def check(to: McpConnection, stack: str, root: Path) -> None:
    tool, given, key = CALLS[stack]
    assert "harbour.md" in json.dumps(to.call(tool, given)[key])
    with pytest.raises(ToolFailed, match="INVALID_ARGUMENT"):
        to.call(tool, {**given, "unknown": 1})
    (root / "harbour.md").write_text("# The harbour\n\nIt is empty.\n")
    assert not to.call(tool, given)[key]
    shutil.rmtree(root)
    with pytest.raises(ToolFailed, match=r"FAILED: .*is not a folder"):
        to.call(tool, given)


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["notes", "code"])
def test_over_stdio_a_client_sees_the_folder_as_it_is(
    root: Path, stack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root.parent)
    with connected(command(stack), "", BOUNDED_S) as to:
        check(to, stack, root)


@pytest.mark.slow
@pytest.mark.sampled(1)
@pytest.mark.parametrize("minutes", [0.05, 0.5])
def test_served_folders_answer_rightly_while_their_files_change(minutes: float) -> None:
    tally = moved(minutes, seed=2)
    assert tally.wrong == []
    assert tally.offered == set(tally.calls)
    assert len(tally.offered) == len(ARMS)


@pytest.fixture
def told_root(project: Toy) -> Path:
    made = project.root / "mine"
    (made / "sub").mkdir(parents=True)
    (made / "harbour.md").write_text(TEXT)
    (made / "sub" / "harbour.md").write_text(f"{TEXT}\nMoor by noon.\n")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("stack", ARMS)
def test_a_folder_that_was_never_indexed_is_told_how_it_is(
    harness: Harness, told_root: Path, stack: str
) -> None:
    arm = ("--arm", ARMS[stack])
    said = harness(stack, "ask", "mine", "boats", *arm, "--no-update")
    assert said.code == 2
    assert "this folder is not indexed yet. Leave out --no-update, or run:" in said.error
    command = shlex.split(said.error.partition("run: ")[2])
    assert command[-5:] == [stack, "index", "mine", *arm]
    assert harness(*command[-5:]).code == 0
    assert harness(stack, "ask", "mine", "boats", *arm, "--no-update").code == 0
    assert told_root.is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("stack", ARMS)
@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_query_is_refused(
    harness: Harness, told_root: Path, stack: str, text: str
) -> None:
    said = harness(stack, "ask", "mine", text, "--arm", ARMS[stack])
    assert said.code == 2
    assert "the query is empty. Name words to look for" in said.error
    assert told_root.is_dir()


@pytest.mark.slow
def test_a_filter_needs_no_text(harness: Harness, told_root: Path) -> None:
    arm = ("--arm", ARMS["code"])
    assert "harbour.md" in harness("code", "ask", "mine", "", *arm, "--type", "section").out
    assert harness("code", "ask", "mine", "", *arm, "--mode", "prose").code == 2
    assert told_root.is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("stack", ARMS)
@pytest.mark.parametrize("words", [("index", ""), ("ask", "", "boats"), ("serve", "")])
def test_a_folder_without_a_name_is_refused(
    harness: Harness, told_root: Path, stack: str, words: tuple[str, ...]
) -> None:
    said = harness(stack, *words, "--arm", ARMS[stack])
    assert said.code == 2
    assert "the folder's name is empty" in " ".join(said.err.replace("│", " ").split())
    assert told_root.is_dir()


@pytest.mark.slow
@pytest.mark.parametrize(("option", "value"), [("--type", "nonsense"), ("--lang", "cobol")])
def test_what_no_unit_is_of_is_refused_with_what_they_are_of(
    harness: Harness, told_root: Path, option: str, value: str
) -> None:
    words = ("code", "ask", "mine", "boats", "--arm", ARMS["code"], option)
    harness("code", "index", "mine", "--arm", ARMS["code"])
    said = harness(*words, value)
    assert f"{option}: is '{value}', which nothing in this folder has; name " in said.error
    known = said.error.rpartition("name ")[2]
    assert known == {"--type": "section", "--lang": "markdown"}[option]
    assert "harbour.md" in harness(*words, known.upper()).out
    for path in told_root.rglob("*.md"):
        path.unlink()
    assert harness(*words, value).code == 0, "a folder without units has no types to name"


@pytest.mark.slow
def test_a_budget_that_is_too_small_is_told_what_it_takes(
    harness: Harness, told_root: Path
) -> None:
    (told_root / "long.md").write_text("# Nets\n\n" + "Nets are mended at night. " * 40)
    words = ("notes", "ask", "mine", "nets", "--arm", ARMS["notes"], "--budget")
    said = harness(*words, "50").out
    assert said.startswith("nothing is shown: 1 snippet is found, and none fits into 50 tokens.")
    needed = said.rpartition("--budget ")[2].partition(",")[0]
    assert harness(*words, f"{int(needed) - 1}").out == said.replace(" 50 ", f" {int(needed) - 1} ")
    assert harness(*words, needed).out.startswith("1. long.md, chunk 0")


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["notes", "docs"])
def test_what_is_said_of_an_empty_answer_holds_where_words_are_refused(
    harness: Harness, told_root: Path, stack: str
) -> None:
    arm = ("--arm", ARMS[stack])
    what = {"notes": "note", "docs": "document"}[stack]
    for text in ("boats -tide", "boats +nowhere", '"tide boats"'):
        said = harness(stack, "ask", "mine", text, *arm).out
        assert said == (
            f"nothing is found: no part of a {what} has all that the query demands"
            " and nothing that it refuses\n"
        ), text
    assert f"no {what} contains the " in harness(stack, "ask", "mine", "nowhere", *arm).out
    assert told_root.is_dir()


@pytest.mark.slow
def test_of_one_document_only_that_one_is_spoken_of(harness: Harness, told_root: Path) -> None:
    words = ("docs", "ask", "mine", "noon", "--arm", ARMS["docs"], "--document", "harbour.md")
    assert harness(*words).out.startswith("in harbour.md, nothing is found: ")
    assert told_root.is_dir()


@pytest.mark.slow
@pytest.mark.parametrize("stack", ["notes", "docs"])
def test_files_of_one_name_are_told_apart_by_their_paths(
    harness: Harness, told_root: Path, stack: str
) -> None:
    (told_root / "日本 語.md").write_text(TEXT)
    words = (stack, "ask", "mine", "boats", "--arm", ARMS[stack])
    lines = harness(*words).out.splitlines()
    found = {line.partition(". ")[2].partition(",")[0] for line in lines if "score" in line}
    assert found == {"harbour.md", "sub/harbour.md", "日本 語.md"}
    answer = json.loads(harness(*words, "--json").out)
    if stack == "notes":
        refs = {one["sourceRef"] for one in answer["items"]}
        assert "doc:%E6%97%A5%E6%9C%AC%20%E8%AA%9E.md#chunk:0" in refs
    else:
        assert {one["source"]["document"] for one in answer["results"]} == {
            "harbour.md", "日本 語.md",
        }  # fmt: skip


@pytest.mark.slow
def test_related_chunks_have_their_paths(harness: Harness, told_root: Path) -> None:
    for path in told_root.rglob("*.md"):
        path.write_text(f"{path.read_text()}\nOcean Tide Trust and Salt Water Bank.\n")
    (told_root / "moon.md").write_text("# The moon\n\nIt pulls the sea.\n")
    words = ("docs", "ask", "mine", "noon", "--arm", ARMS["docs"], "--related", "3")
    said = harness(*words, "--document", "sub/harbour.md").out
    assert "1. sub/harbour.md, " in said
    assert "related: harbour.md, " in harness(*words).out


@pytest.mark.slow
def test_a_remedy_is_the_same_in_json(
    harness: Harness, told_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CALLED, "python3 run.py")
    refused = Malformed('is go. Run: pip install "search-harness[languages]"')
    (told_root / "shop.go").write_text("package shop\n")
    words = ("code", "index", "mine", "--arm", ARMS["code"])
    with mock.patch.object(documents, "_of_language", side_effect=refused):
        plain = harness(*words).err
        (fault,) = json.loads(harness(*words, "--json").out)["faults"]
    assert "Run: python3 run.py pip install " in plain
    assert f"{fault['path']}: {fault['why']}" in plain


@pytest.mark.slow
@pytest.mark.parametrize("stack", ARMS)
def test_a_name_of_two_lines_is_told_at_each_index(
    harness: Harness, told_root: Path, stack: str
) -> None:
    (told_root / "a\nb.md").write_text(TEXT)
    words = (stack, "index", "mine", "--arm", ARMS[stack])
    for counts in ("2 read, 0 removed, 0 unchanged", "0 read, 0 removed, 2 unchanged"):
        said = harness(*words)
        assert said.out == f"files: {counts}; 1 cannot be read\n"
        assert "a\\nb.md: its name holds the end of a line, or a control" in said.err
    (fault,) = json.loads(harness(*words, "--json").out)["faults"]
    assert fault["path"] == "a\\nb.md"
    assert "files:" not in harness(stack, "ask", "mine", "boats", "--arm", ARMS[stack]).err


@pytest.mark.slow
@pytest.mark.parametrize("stack", ARMS)
def test_what_is_left_out_is_told_with_the_remedy(
    harness: Harness, told_root: Path, stack: str
) -> None:
    (told_root / ".gitignore").write_text("sub/\n")
    words = (stack, "index", "mine", "--arm", ARMS[stack])
    assert "1 entry left out, such as sub/: " in harness(*words).err
    assert json.loads(harness(*words, "--json").out)["left_out"] == ["sub/"]
    said = harness(*words, "--all")
    assert said.out == "files: 1 read, 0 removed, 1 unchanged\n"
    assert "left out" not in said.err
    assert harness(stack, "ask", "mine", "boats", "--arm", ARMS[stack]).err == ""


@pytest.mark.slow
@pytest.mark.parametrize("stack", ARMS)
def test_a_file_that_is_damaged_is_told_of_at_the_next_query(
    harness: Harness, told_root: Path, stack: str
) -> None:
    words = (stack, "ask", "mine", "boats", "--arm", ARMS[stack])
    harness(*words)
    (told_root / "harbour.md").write_bytes(b"\xff\xfe\xff")
    counts = "files: 0 read, 0 removed, 1 unchanged; 1 cannot be read"
    assert counts in harness(*words).err
    assert "harbour.md: is not UTF-8" in harness(*words).err
    answer = json.loads(harness(*words, "--json").out)
    assert [one["path"] for one in answer["unread"]] == ["harbour.md"]
    (told_root / "sub" / "harbour.md").unlink()
    assert "no file that is read" not in harness(*words).err


REST = "Nothing of it matters here. " * 40
FOUND = "Lanterns were lit along the harbour walls at nine."


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (REST + FOUND + REST, "harbour"),
        (REST + FOUND + REST, "the lantern on a wall"),
        ("A lantern. " + REST + FOUND + REST, "lanterns of the harbour"),
        (REST + FOUND, '+harbour -matters "at nine"'),
    ],
)
def test_the_words_that_were_looked_for_are_shown(text: str, query: str) -> None:
    shown = around(text, query, 200)
    assert FOUND in shown
    assert shown.startswith("… ")
    assert len(shown) <= 200
    part = shown.removeprefix(BEFORE).removesuffix(AFTER)
    assert part in text
    assert text[text.index(part) - 1].isspace()
    assert shown.endswith(AFTER) != text.endswith(part)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (FOUND + REST + FOUND, "harbour lantern"),
        (REST, "harbour"),
        (REST, "the"),
        (REST + FOUND, "-harbour"),
    ],
)
def test_the_beginning_is_shown_where_it_has_as_many_words_as_any(text: str, query: str) -> None:
    assert around(text, query, 200) == text[:199] + AFTER


def test_a_short_text_is_shown_whole_and_one_without_spaces_from_its_beginning() -> None:
    assert around(FOUND, "nine", 200) == FOUND
    assert len(around("a" * 300 + "-harbour-" + "a" * 300, "harbour", 200)) <= 200


@pytest.mark.parametrize("rest", [" the end of it " + REST, "/" * 400, ""])
def test_a_word_within_a_long_address_is_shown(rest: str) -> None:
    """The search for a space before it went past the word, up to the end of the text."""
    shown = around(f"http://x/{'a' * 400}/needle/{'b' * 100}{rest}", "needle", 200)
    assert "needle" in shown
    assert len(shown) <= 200


def test_words_that_count_as_shown_are_shown_whole() -> None:
    text = f"{'x ' * 100}alpha {'y ' * 80}threads {REST}"
    most = next(n for n in range(60, 400) if "threads" in around(text, "alpha threads", n))
    assert all("threads" in around(text, "alpha threads", n) for n in range(most, 400))


WAYS = {way for row in rows() for way in row.reached_by}
GROUPS = {"notes": "writing-stems", "docs": "documents-bm25", "code": "code-words"}
COMMANDS = sorted(
    (words[1], words[2], tuple(words[3:]))
    for way in WAYS
    if (words := way.split())[0] == "harness" and words[1] in GROUPS
)
ASKED = {"notes": "boats harbour", "docs": "boats harbour", "code": "pay sum"}
SAID: Mapping[str, str] = {
    "--arm": "writing-fts",
    "--budget": "50",
    "--title": "salt",
    "--selection": "sells",
    "--project": "tide",
    "--top": "1",
    "--document": "moon.md",
    "--related": "3",
    "--lang": "markdown",
    "--path": "harbour",
    "--type": "function",
    "--signature": "sum",
    "--risk": "low",
    "--risk-tag": "code",
    "--inferred-type": "int",
    "--return-type": "int",
    "--mode": "prose",
    "--context": "2",
    "--set": "fields.name=9",
}
"""A value of each option that takes one."""
WITH: Mapping[str, tuple[str, ...]] = {
    "--graph": ("--explain",),
    "--set": ("--explain",),
    "--related": ("--top", "1"),
}
"""Options whose effect another one shows."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write notes, documents and code that each option tells apart."""
    root = tmp_path_factory.mktemp("reached") / "mine"
    write_shop(root)
    boats = "Boats of the Ocean Tide Trust wait in the harbour. " * 8
    (root / "harbour.md").write_text(f"# The harbour\n\n{boats}\n\n## Salt\n\n{boats}\n")
    (root / "moon.md").write_text("# The moon\n\nIt pulls boats of the Ocean Tide Trust.\n")
    (root / "salt.md").write_text("# Salt\n\nThe Ocean Tide Trust sells salt.\n")
    (root / "pay.py").write_text("def pay(sum: int) -> int:\n    return count(sum)\n")
    (root / "bank.py").write_text(
        "from pay import pay\n\n\ndef main(sum):\n    pay(eval(input()))\n"
    )
    return root


@pytest.fixture(scope="module")
def printed() -> dict[tuple[str, ...], str]:
    """Remember what commands printed, for options that share one."""
    return {}


@pytest.mark.slow
@pytest.mark.parametrize("way", COMMANDS, ids=lambda way: " ".join((*way[:2], *way[2])))
def test_each_option_of_a_way_changes_what_a_command_prints(
    project: Toy,
    harness: Harness,
    folder: Path,
    printed: dict[tuple[str, ...], str],
    way: tuple[str, str, tuple[str, ...]],
) -> None:
    group, verb, options = way

    def prints(*more: str) -> str:
        text = (ASKED[group],) if verb == "ask" else ()
        arm = () if "--arm" in more else ("--arm", GROUPS[group])
        words = (group, verb, str(folder), *text, *arm, *more)
        if words not in printed:
            said = harness(*words)
            assert said.code == 0, said
            printed[words] = said.out
        return printed[words]

    assert project.root.is_dir()
    for option in options or ("",):
        shown = WITH.get(option, ())
        plain = prints(*shown)
        assert plain
        given = [option, SAID[option]] if option in SAID else [option]
        assert not option or prints(*given, *shown) != plain, option


@dataclass(frozen=True)
class Offered:
    """A tool, what it cannot do without, and a value of each other argument."""

    app: Server[Any]
    needed: Mapping[str, Any]
    said: Mapping[str, Any]


@pytest.fixture(scope="module")
def offered(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Offered]]:
    kept = tmp_path_factory.mktemp("kept")
    followed = {group: live(group, folder, kept / group) for group in GROUPS}
    notes, docs, code = followed["notes"], followed["docs"], followed["code"]
    yield {
        "rag_retrieve": Offered(
            NOTES.application(notes, "n"),
            {"queryText": ASKED["notes"]},
            {
                "limit": 1, "budget": 50, "title": "salt", "selection": "moon",
                "project": "tide", "explain": True,
            },
        ),
        "search_collection": Offered(
            DOCUMENTS.application(docs, "d"),
            {"query": ASKED["docs"]},
            {"top_k": 1, "document_filter": "moon.md", "max_expansions": 3, "explain": True},
        ),
        "search_code": Offered(
            CODE.application(code, "c"),
            {"query": ASKED["code"]},
            {
                "top": 1, "mode": "prose", "context": 2, "graph": True, "explain": True,
                "lang": "markdown", "ext": "md", "file": "harbour", "path": "harbour",
                "type": "function", "signature": "sum: int", "risk": "low", "risk_tag": "code",
                "risk_source": "input", "risk_sink": "eval", "risk_category": "x",
                "risk_flow": "input->eval", "inferred_type": "int", "return_type": "int",
                "param": "sum", "uses": "count", "calls": "count",
            },
        ),
    }  # fmt: skip
    for one in followed.values():
        one.close()


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["rag_retrieve", "search_collection", "search_code"])
def test_each_argument_of_a_tool_changes_what_a_client_gets(
    offered: dict[str, Offered], tool: str
) -> None:
    one = offered[tool]
    named = {
        argument
        for way in WAYS
        if (found := TOOL.fullmatch(way)) and found[1] == tool
        for argument in found[2].split(", ")
    }
    assert named
    assert named <= {*one.needed, *one.said}

    async def answers() -> dict[str, Any]:
        async with Client(one.app) as client:
            (listed,) = (await client.session.list_tools()).tools
            assert {*one.needed, *one.said} == listed.input_schema["properties"].keys()
            found = {"": await client.session.call_tool(tool, dict(one.needed))}
            for name, value in one.said.items():
                base = {"explain": True} if name == "graph" else {}
                found[name] = await client.session.call_tool(
                    tool, {**one.needed, **base, name: value}
                )
        return {name: (one.is_error, one.structured_content) for name, one in found.items()}

    got = anyio.run(answers)
    failed, plain = got.pop("")
    assert not failed
    lost = [name for name, (wrong, answer) in got.items() if wrong or answer == plain]
    if "graph" in got:
        lost += ["graph"] if got["graph"] == got["explain"] else []
    assert lost == []
