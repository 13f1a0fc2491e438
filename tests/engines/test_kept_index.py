"""The index of a kept folder."""

import os
import random
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from harness_engines.kept import index, listing
from harness_engines.kept.index import LiveFolder, Updated
from harness_engines.kept.kit import CODE, DOCUMENTS, KITS, NOTES
from harness_engines.kept.listing import UnreadFile
from harness_engines.stacks.code.arm import Code
from harness_engines.stacks.code.ranking import CodeSettings
from harness_engines.stacks.documents.arm import Documents
from harness_engines.stacks.documents.library import DocumentSettings
from harness_engines.stacks.writing.arm import Writing, reader
from harness_engines.stacks.writing.retrieval import WritingSettings as NoteSettings
from harness_engines.stacks.writing.store import rows
from tests.make.code import SETTINGS as CODE_SETTINGS
from tests.make.models import NOTES_SETTINGS

WORDS = ("salt", "water", "sea", "boat", "harbour", "tide", "moon", "net")
BY_WORDS = {"tier": "free", "embedder": "", "sparse": "", "max_tokens": 64}
FORMULA = {"fusion": "specification"}
LONG_AGO_NS = 10**18


def write(root: Path, name: str, text: str, mtime_ns: int = LONG_AGO_NS) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, ns=(mtime_ns, mtime_ns))


def note_settings(**changed: object) -> NoteSettings:
    return NoteSettings.model_validate({**NOTES_SETTINGS, "rerank": False, **changed})


def live(stack: str, root: Path, place: Path) -> LiveFolder:
    """Follow a folder by one of the three stacks, by words or by vectors of hashes."""
    cache = place.parent / "cache"
    if stack == "notes":
        return NOTES.follow(Writing(note_settings()), root, place)
    if stack == "code":
        hashed = {**CODE_SETTINGS, "embedder": "hash", "mixed": "scores"}
        return CODE.follow(Code(CodeSettings.model_validate(hashed), cache), root, place)
    settings = DocumentSettings.model_validate({**BY_WORDS, **FORMULA})
    return DOCUMENTS.follow(Documents(settings, cache), root, place)


MOST = {"notes": {"limit": 50}, "code": {"top": 50}, "docs": {"top_k": 50, "max_expansions": 3}}
"""As much as a stack shows of a small folder."""


def ask(stack: str, opened: Any, text: str) -> Any:  # noqa: ANN401  JSON of one of three stacks
    kit = next(one for one in KITS if one.group == stack)
    answer = dict(kit.answer(opened, {kit.query.name: text, "explain": True, **MOST[stack]}))
    answer.pop("search_time_ms", "")
    for result in answer.get("results", ()):
        for name in ("chunk_created_at", "chunk_embedded_at", "document_ingested_at"):
            del result["source"][name]
    return answer


STACKS = ("notes", "code", "docs")
QUESTIONS = ("salt water", '"salt water"', "sea -boat", "-sea", "+tide moon", "arbou", "nowhere")


@pytest.mark.parametrize("stack", STACKS)
def test_after_any_changes_it_answers_as_if_made_anew(tmp_path: Path, stack: str) -> None:
    drawn = random.Random(stack)
    root = tmp_path / "root"
    root.mkdir()
    followed = live(stack, root, tmp_path / "kept")
    names = [f"{folder}{at}.md" for folder in ("", "a/", "b/c/") for at in range(4)]
    for turn in range(5):
        for name in drawn.sample(names, 5):
            if (root / name).exists() and drawn.random() < 0.4:
                (root / name).unlink()
                continue
            parts = (" ".join(drawn.choices(WORDS, k=30)) for _ in range(3))
            write(root, name, "# Title\n\n" + "\n\n".join(parts), LONG_AGO_NS + turn)
        fresh = live(stack, root, tmp_path / f"fresh-{turn}")
        with followed.now() as (now, _), fresh.now() as (anew, _):
            for text in QUESTIONS:
                assert ask(stack, now, text) == ask(stack, anew, text), text
        fresh.close()
    followed.close()


def test_vectors_count_once_every_text_has_one(tmp_path: Path) -> None:
    root, place = tmp_path / "root", tmp_path / "kept"
    write(root, "one.md", "# One\n\nsalt\n")
    whole = live("code", root, place)
    said = []
    for complete in (whole.reader.complete, None, whole.reader.complete):
        followed = LiveFolder(root, place, replace(whole.reader, complete=complete))
        with followed.now() as (now, _):
            said.append(ask("code", now, "salt").get("missing", ""))
        followed.close()
        write(root, "two.md", "# Two\n\nwater\n")
    assert said == ["", "vectors are not made yet; index the folder to the end", ""]


Update = Callable[[], Updated]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name in ("one.md", "two.md", "deep/three.txt"):
        write(folder, name, f"# {name}\n\nsalt water\n")
    return folder


@pytest.fixture
def update(root: Path, tmp_path: Path) -> Update:
    place = tmp_path / "kept"
    return lambda: index.update(root, place, reader(Writing(note_settings()), root, place))


ROWS = "harness_engines.stacks.writing.arm.rows"
"""What is called once for each note that is taken in."""


def test_a_file_that_did_not_change_is_not_read(root: Path, update: Update) -> None:
    with mock.patch(ROWS, side_effect=rows) as put:
        assert update() == Updated(3, 0, 0, ())
        with mock.patch("harness_engines.kept.index.whole_below") as opened:
            assert update() == Updated(0, 0, 3, ())
        assert not opened.called
        os.utime(root / "one.md", ns=(LONG_AGO_NS + 9, LONG_AGO_NS + 9))
        assert update() == Updated(0, 0, 3, ())
        write(root, "two.md", "sea", LONG_AGO_NS + 1)
        assert update() == Updated(1, 0, 2, ())
    assert [call.args[0] for call in put.call_args_list[3:]] == ["two.md"]
    (root / "one.md").unlink()
    for text in ("tide", "salt"):
        write(root, "one.md", f"# one.md\n\n{text} water\n")
        assert update() == Updated(1, 0, 2, ())
        update()
    (root / "one.md").write_bytes(b"\xff\xfe\xff")
    done = update()
    assert (done.read, done.unchanged, done.refused, done.is_change) == (0, 2, 1, True)


def test_a_kept_folder_is_private(tmp_path: Path, update: Update) -> None:
    """The texts of a folder that only its user could read were readable by all."""
    (tmp_path / "kept").mkdir(mode=0o755)
    update()
    modes = [stat.S_IMODE((tmp_path / "kept" / at).stat().st_mode) for at in ("", index.FILE)]
    assert modes == [0o700, 0o600]


def test_a_change_while_reading_is_seen(root: Path, update: Update) -> None:
    write(root, "one.md", "salt", now := time.time_ns())
    update()
    write(root, "one.md", "tide", now)
    assert update().read == 1


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("broken", [ValueError, RecursionError])
def test_a_file_that_breaks_its_reader(update: Update, broken: type[Exception]) -> None:

    def broken_rows(path: str, *given: Any) -> Iterator[Any]:  # noqa: ANN401  those of ``rows``
        yield from rows(path, *given)
        if path == "one.md":
            raise broken

    with mock.patch(ROWS, broken_rows):
        done = update()
    why = f"cannot be read ({broken.__name__}). Save it anew, or leave it out"
    assert done == Updated(2, 0, 0, (UnreadFile("one.md", why),), refused=1)


def test_an_unreadable_file_is_named_at_each_update(root: Path, update: Update) -> None:
    (root / "bad.md").write_bytes(b"one\ntwo \xff\xfe")
    fault = UnreadFile("bad.md", "is not UTF-8 (invalid start byte). Save it as UTF-8")
    assert update() == Updated(3, 0, 0, (fault,), refused=1)
    os.utime(root / "bad.md", ns=(LONG_AGO_NS, LONG_AGO_NS))
    assert update() == Updated(0, 0, 3, (fault,))
    write(root, "bad.md", "tide")
    assert update() == Updated(1, 0, 3, ())


@pytest.mark.parametrize(
    ("place", "path"), [("one.md", "one.md"), ("deep", "deep/three.txt")], ids=["file", "folder"]
)
def test_what_became_a_link_after_it_was_listed_leads_nowhere_else(
    root: Path, tmp_path: Path, update: Update, place: str, path: str
) -> None:
    real = listing.listed
    write(tmp_path, "outside/three.txt", "secret tide")

    def listed(*given: Any, **named: Any) -> listing.FolderListing:  # noqa: ANN401  those of ``listed``
        found = real(*given, **named)
        (root / place).rename(tmp_path / "away")
        (root / place).symlink_to(tmp_path / "outside" / ("three.txt" if place == path else ""))
        return found

    with mock.patch.object(index, "listed", listed):
        (fault,) = update().faults
    assert (fault.path, fault.why[:13]) == (path, "became a link")
    with closing(sqlite3.connect(tmp_path / "kept" / index.FILE)) as db:
        secret = db.execute("SELECT count(*) FROM chunk WHERE text LIKE '%secret%'").fetchone()
    assert secret == (0,)
    assert update().faults == ()


@pytest.mark.parametrize("what", ["other settings", "a broken file", "another folder"])
def test_an_index_of_something_else_begins_anew(
    root: Path, tmp_path: Path, update: Update, what: str
) -> None:
    update()
    settings, of = note_settings(), root
    if what == "other settings":
        settings = note_settings(chunk_characters=50)
    elif what == "another folder":
        of = root.rename(tmp_path / "moved")
    else:
        (tmp_path / "kept" / index.FILE).write_bytes(b"no database" * 1_000)
    place = tmp_path / "kept"
    assert index.update(of, place, reader(Writing(settings), of, place)).read == 3


def test_a_heading_that_begins_a_note_is_shown_once(tmp_path: Path) -> None:
    write(tmp_path / "root", "a.md", "\n# Harbour tides\n\nBoats wait.\n")
    write(tmp_path / "root", "b.md", "Salt first.\n\n# Below\n\nBoats go.\n")
    write(tmp_path / "root", "c.md", "# Alone\n")
    write(tmp_path / "root", "d.md", "\ufeff# Marked\n\nIt begins so.\n")
    followed = live("notes", tmp_path / "root", tmp_path / "kept")
    with followed.now() as (now, _):
        for text, begins in {
            "harbour": "Harbour tides\nBoats wait.",
            "salt": "Below\nSalt first.\n\n# Below",
            "alone": "Alone",
            "marked": "Marked\nIt begins so.",
        }.items():
            (found,) = ask("notes", now, text)["items"]
            assert found["snippet"].split("\n\nBoats go")[0] == begins, text
    followed.close()


KINDS = frozenset({".md", ".txt"})


@pytest.mark.parametrize("name", ["deep", "deep/three.txt"])
def test_what_is_removed_while_a_folder_is_listed_ends_nothing(root: Path, name: str) -> None:
    real, gone = os.scandir, root / name

    def scanned(path: Path | str) -> Any:  # noqa: ANN401  what scandir gives
        with real(path) as found:
            entries = list(found)
        if Path(path) == gone.parent and gone.exists():
            gone.unlink() if gone.is_file() else gone.rename(root.parent / "away")
        return nullcontext(entries)

    with mock.patch("os.scandir", scanned):
        left = [one.path for one in listing.listed(root, KINDS).files]
    assert left == ["one.md", "two.md"]


@pytest.mark.parametrize("name", ["10.05\u202fPM.md", "so\xadft.md"])
def test_a_name_may_have_any_space(root: Path, name: str) -> None:
    write(root, name, "x")
    assert name in {one.path for one in listing.listed(root, KINDS).files}


def test_hidden_files_links_and_environments_are_left_out(root: Path, tmp_path: Path) -> None:
    for name in (".hidden.md", ".git/a.md", "node_modules/a.md", "env/pyvenv.cfg", "env/a.md"):
        write(root, name, "x")
    (root / "link.md").symlink_to(root / "one.md")
    (root / "up").symlink_to(tmp_path)
    found = [one.path for one in listing.listed(root, KINDS).files]
    assert found == ["deep/three.txt", "one.md", "two.md"]
    for raw in (b"a\n.png", b".a\n.md", b"a\n.md.bak", b"env\n/pyvenv.cfg", b"env\n/a.md"):
        put_bytes(root, raw)
    (root / "link\n.md").symlink_to(root / "one.md")
    (root / "up\n").symlink_to(root)
    assert listing.listed(root, KINDS).unnamed == ()


def test_a_name_that_is_no_text_is_shown_by_its_bytes_on_a_line(root: Path) -> None:
    put_bytes(root, b"caf\xe9.md")
    put_bytes(root, "\xfcber\nall.md".encode())
    shown = [one.path for one in listing.listed(root, KINDS).unnamed]
    assert shown == ["caf\\xe9.md", "\xfcber\\nall.md"]


def put_bytes(root: Path, name: bytes) -> None:
    """Write a file by the bytes of its name, or skip where the file system takes none such."""
    path = os.path.join(os.fsencode(root), name)  # noqa: PTH118  a Path has no bytes
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120  as above
        with open(path, "wb") as file:  # noqa: PTH123  as above
            file.write(b"salt")
    except OSError:
        pytest.skip("the file system takes names of UTF-8 alone")


MADE = ("build/a.md", "target/a.md", "node_modules/a.md", "deep/third_party/a.md", "cache/a.md")
LEFT = ("build/", "cache/", "deep/third_party/", "node_modules/", "target/")


def test_what_tools_write_or_copy_is_left_out_unless_all_is_wanted(root: Path) -> None:
    for name in (*MADE, "cache/CACHEDIR.TAG", "pyproject.toml", "deep/build/a.md"):
        write(root, name, "x")
    found = listing.listed(root, KINDS)
    read = ["deep/build/a.md", "deep/three.txt", "one.md", "two.md"]
    assert [one.path for one in found.files] == read
    assert found.left_out == LEFT
    whole = listing.listed(root, KINDS, everything=True)
    assert {one.path for one in whole.files} >= set(MADE)
    assert whole.left_out == ()


def test_what_is_ignored_is_left_out_as_git_does(root: Path) -> None:
    write(root, ".gitignore", "*.txt\n/two.md\nout/\n!kept.txt\n# a comment\n[\n\\\n")
    write(root, "deep/.gitignore", "!three.txt\nfour.md\n")
    for name in ("deep/four.md", "deep/two.md", "out/a.md", "kept.txt", "out.md"):
        write(root, name, "x")
    found = listing.listed(root, KINDS)
    read = ["deep/three.txt", "deep/two.md", "kept.txt", "one.md", "out.md"]
    assert [one.path for one in found.files] == read
    assert found.left_out == ("deep/four.md", "out/", "two.md")
