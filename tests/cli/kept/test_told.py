"""What ``harness notes``, ``code`` and ``docs`` say where there is no answer, or another place."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from unittest import mock

import pytest

from engines.stacks.code.reading import documents
from harness.cli.exit_codes import CALLED
from harness.core.reading import Malformed
from tests.cli.conftest import Harness
from tests.cli.kept.test_folders import ARMS, TEXT
from tests.make.toy import Toy

pytestmark = pytest.mark.slow


@pytest.fixture
def root(project: Toy) -> Path:
    made = project.root / "mine"
    (made / "sub").mkdir(parents=True)
    (made / "harbour.md").write_text(TEXT)
    (made / "sub" / "harbour.md").write_text(f"{TEXT}\nMoor by noon.\n")
    return made


@pytest.mark.parametrize("stack", ARMS)
def test_a_folder_that_was_never_indexed_is_told_how_it_is(
    harness: Harness, root: Path, stack: str
) -> None:
    arm = ("--arm", ARMS[stack])
    said = harness(stack, "ask", "mine", "boats", *arm, "--no-update")
    assert said.code == 2
    assert "this folder is not indexed yet. Leave out --no-update, or run:" in said.error
    command = shlex.split(said.error.partition("run: ")[2])
    assert command[-5:] == [stack, "index", "mine", *arm]
    assert harness(*command[-5:]).code == 0
    assert harness(stack, "ask", "mine", "boats", *arm, "--no-update").code == 0
    assert root.is_dir()


@pytest.mark.parametrize("stack", ARMS)
@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_query_is_refused(harness: Harness, root: Path, stack: str, text: str) -> None:
    said = harness(stack, "ask", "mine", text, "--arm", ARMS[stack])
    assert said.code == 2
    assert "the query is empty. Name words to look for" in said.error
    assert root.is_dir()


def test_a_filter_needs_no_text(harness: Harness, root: Path) -> None:
    arm = ("--arm", ARMS["code"])
    assert "harbour.md" in harness("code", "ask", "mine", "", *arm, "--type", "section").out
    assert harness("code", "ask", "mine", "", *arm, "--mode", "prose").code == 2
    assert root.is_dir()


@pytest.mark.parametrize("stack", ARMS)
@pytest.mark.parametrize("words", [("index", ""), ("ask", "", "boats"), ("serve", "")])
def test_a_folder_without_a_name_is_refused(
    harness: Harness, root: Path, stack: str, words: tuple[str, ...]
) -> None:
    said = harness(stack, *words, "--arm", ARMS[stack])
    assert said.code == 2
    assert "the folder's name is empty" in " ".join(said.err.replace("│", " ").split())
    assert root.is_dir()


@pytest.mark.parametrize(("option", "value"), [("--type", "nonsense"), ("--lang", "cobol")])
def test_what_no_unit_is_of_is_refused_with_what_they_are_of(
    harness: Harness, root: Path, option: str, value: str
) -> None:
    words = ("code", "ask", "mine", "boats", "--arm", ARMS["code"], option)
    harness("code", "index", "mine", "--arm", ARMS["code"])
    said = harness(*words, value)
    assert f"{option}: is '{value}', which nothing in this folder has; name " in said.error
    known = said.error.rpartition("name ")[2]
    assert known == {"--type": "section", "--lang": "markdown"}[option]
    assert "harbour.md" in harness(*words, known.upper()).out
    for path in root.rglob("*.md"):
        path.unlink()
    assert harness(*words, value).code == 0, "a folder without units has no types to name"


def test_a_budget_that_is_too_small_is_told_what_it_takes(harness: Harness, root: Path) -> None:
    (root / "long.md").write_text("# Nets\n\n" + "Nets are mended at night. " * 40)
    words = ("notes", "ask", "mine", "nets", "--arm", ARMS["notes"], "--budget")
    said = harness(*words, "50").out
    assert said.startswith("nothing is shown: 1 snippet is found, and none fits into 50 tokens.")
    needed = said.rpartition("--budget ")[2].partition(",")[0]
    assert harness(*words, f"{int(needed) - 1}").out == said.replace(" 50 ", f" {int(needed) - 1} ")
    assert harness(*words, needed).out.startswith("1. long.md, chunk 0")


@pytest.mark.parametrize("stack", ["notes", "docs"])
def test_what_is_said_of_an_empty_answer_holds_where_words_are_refused(
    harness: Harness, root: Path, stack: str
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
    assert root.is_dir()


def test_of_one_document_only_that_one_is_spoken_of(harness: Harness, root: Path) -> None:
    words = ("docs", "ask", "mine", "noon", "--arm", ARMS["docs"], "--document", "harbour.md")
    assert harness(*words).out.startswith("in harbour.md, nothing is found: ")
    assert root.is_dir()


@pytest.mark.parametrize("stack", ["notes", "docs"])
def test_files_of_one_name_are_told_apart_by_their_paths(
    harness: Harness, root: Path, stack: str
) -> None:
    (root / "日本 語.md").write_text(TEXT)
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


def test_related_chunks_have_their_paths(harness: Harness, root: Path) -> None:
    for path in root.rglob("*.md"):
        path.write_text(f"{path.read_text()}\nOcean Tide Trust and Salt Water Bank.\n")
    (root / "moon.md").write_text("# The moon\n\nIt pulls the sea.\n")
    words = ("docs", "ask", "mine", "noon", "--arm", ARMS["docs"], "--related", "3")
    said = harness(*words, "--document", "sub/harbour.md").out
    assert "1. sub/harbour.md, " in said
    assert "related: harbour.md, " in harness(*words).out


def test_a_remedy_is_the_same_in_json(
    harness: Harness, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CALLED, "python3 run.py")
    refused = Malformed('is go. Run: pip install "search-harness[languages]"')
    (root / "shop.go").write_text("package shop\n")
    words = ("code", "index", "mine", "--arm", ARMS["code"])
    with mock.patch.object(documents, "_of_language", side_effect=refused):
        plain = harness(*words).err
        (fault,) = json.loads(harness(*words, "--json").out)["faults"]
    assert "Run: python3 run.py pip install " in plain
    assert f"{fault['path']}: {fault['why']}" in plain


@pytest.mark.parametrize("stack", ARMS)
def test_a_name_of_two_lines_is_told_at_each_index(
    harness: Harness, root: Path, stack: str
) -> None:
    (root / "a\nb.md").write_text(TEXT)
    words = (stack, "index", "mine", "--arm", ARMS[stack])
    for counts in ("2 read, 0 removed, 0 unchanged", "0 read, 0 removed, 2 unchanged"):
        said = harness(*words)
        assert said.out == f"files: {counts}; 1 cannot be read\n"
        assert "a\\nb.md: its name holds the end of a line, or a control" in said.err
    (fault,) = json.loads(harness(*words, "--json").out)["faults"]
    assert fault["path"] == "a\\nb.md"
    assert "files:" not in harness(stack, "ask", "mine", "boats", "--arm", ARMS[stack]).err


@pytest.mark.parametrize("stack", ARMS)
def test_what_is_left_out_is_told_with_the_remedy(harness: Harness, root: Path, stack: str) -> None:
    (root / ".gitignore").write_text("sub/\n")
    words = (stack, "index", "mine", "--arm", ARMS[stack])
    assert "1 entry left out, such as sub/: " in harness(*words).err
    assert json.loads(harness(*words, "--json").out)["left_out"] == ["sub/"]
    said = harness(*words, "--all")
    assert said.out == "files: 1 read, 0 removed, 1 unchanged\n"
    assert "left out" not in said.err
    assert harness(stack, "ask", "mine", "boats", "--arm", ARMS[stack]).err == ""


@pytest.mark.parametrize("stack", ARMS)
def test_a_file_that_is_damaged_is_told_of_at_the_next_query(
    harness: Harness, root: Path, stack: str
) -> None:
    words = (stack, "ask", "mine", "boats", "--arm", ARMS[stack])
    harness(*words)
    (root / "harbour.md").write_bytes(b"\xff\xfe\xff")
    counts = "files: 0 read, 0 removed, 1 unchanged; 1 cannot be read"
    assert counts in harness(*words).err
    assert "harbour.md: is not UTF-8" in harness(*words).err
    answer = json.loads(harness(*words, "--json").out)
    assert [one["path"] for one in answer["unread"]] == ["harbour.md"]
    (root / "sub" / "harbour.md").unlink()
    assert "no file that is read" not in harness(*words).err
