"""A folder is listed: what is read, what is left out, and which names are told."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from engines.kept import listing
from engines.kept.listing import Fault
from tests.engines.kept.test_index import LINE, write

KINDS = frozenset({".md", ".txt"})
FOREIGN = "its name is not UTF-8"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name in ("one.md", "two.md", "deep/three.txt"):
        write(folder, name, "salt water\n")
    return folder


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


def test_hidden_files_links_and_environments_are_left_out(root: Path, tmp_path: Path) -> None:
    for name in (".hidden.md", ".git/a.md", "node_modules/a.md", "env/pyvenv.cfg", "env/a.md"):
        write(root, name, "x")
    (root / "link.md").symlink_to(root / "one.md")
    (root / "up").symlink_to(tmp_path)
    found = [one.path for one in listing.listed(root, KINDS).files]
    assert found == ["deep/three.txt", "one.md", "two.md"]


NAMES = (
    "10.05\u202fPM.md", "a\xa0b.md", "\u5831\u544a\u3000\u66f8.md", "so\xadft.md", "\u200emark.md",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_may_have_any_space(root: Path, name: str) -> None:
    write(root, name, "x")
    assert name in {one.path for one in listing.listed(root, KINDS).files}


def put(root: Path, name: bytes) -> None:
    """Write a file by the bytes of its name, or skip where the file system takes none such."""
    path = os.path.join(os.fsencode(root), name)  # noqa: PTH118  a Path has no bytes
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120  as above
        with open(path, "wb") as file:  # noqa: PTH123  as above
            file.write(b"salt")
    except OSError:
        pytest.skip("the file system takes names of UTF-8 alone")


TOLD = {
    b"a\nb.md": Fault("a\\nb.md", f"{LINE}. Rename it"),
    "a\u2028b.md".encode(): Fault("a\\u2028b.md", f"{LINE}. Rename it"),
    "a\x85b.md".encode(): Fault("a\\u0085b.md", f"{LINE}. Rename it"),
    b"\x1b[31m.md": Fault("\\x1b[31m.md", f"{LINE}. Rename it"),
    b"caf\xe9.md": Fault("caf\\xe9.md", f"{FOREIGN}. Rename it"),
    b"caf\xe9\n.md": Fault("caf\\xe9\\n.md", f"{FOREIGN}. Rename it"),
    b"deep/\xff.TXT": Fault("deep/\\xff.TXT", f"{FOREIGN}. Rename it"),
    b"caf\xe9/a.md": Fault("caf\\xe9/", f"{FOREIGN}. Rename the folder to read it"),
    b"a\nb/c/d.md": Fault("a\\nb/", f"{LINE}. Rename the folder to read it"),
}
"""What is said of a file by the bytes of its path."""


@pytest.mark.parametrize("name", TOLD)
def test_a_name_that_is_no_line_of_text_is_told_with_the_remedy(root: Path, name: bytes) -> None:
    put(root, name)
    found = listing.listed(root, KINDS)
    assert found.unnamed == (TOLD[name],)
    assert TOLD[name].path.isprintable()
    assert [one.path for one in found.files] == ["deep/three.txt", "one.md", "two.md"]


def test_only_what_would_be_read_is_told(root: Path) -> None:
    for name in (b"a\n.png", b".a\n.md", b"a\n.md.bak", b"env\n/pyvenv.cfg", b"env\n/a.md"):
        put(root, name)
    (root / "link\n.md").symlink_to(root / "one.md")
    (root / "up\n").symlink_to(root)
    assert listing.listed(root, KINDS).unnamed == ()


MADE = ("build/a.md", "target/a.md", "node_modules/a.md", "deep/third_party/a.md", "cache/a.md")
LEFT = ("build/", "cache/", "deep/third_party/", "node_modules/", "target/")


def test_what_tools_write_or_copy_is_left_out_unless_all_is_wanted(root: Path) -> None:
    for name in (*MADE, "cache/CACHEDIR.TAG", "pyproject.toml", "deep/build/a.md"):
        write(root, name, "x")
    found = listing.listed(root, KINDS)
    assert [one.path for one in found.files] == [
        *("deep/build/a.md", "deep/three.txt", "one.md", "two.md")
    ]
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


@pytest.mark.parametrize("patterns", ["deep/*.txt\n", "/deep/sub/\n"])
def test_patterns_above_a_folder_hold_unless_they_ignore_it(root: Path, patterns: str) -> None:
    write(root, "deep/sub/four.md", "x")
    (root / ".git").mkdir()
    write(root, ".gitignore", patterns)
    below = [one.path for one in listing.listed(root / "deep", KINDS).files]
    assert below == (["sub/four.md"] if "txt" in patterns else ["three.txt"])
    write(root, ".gitignore", f"/deep/\n{patterns}")
    below = [one.path for one in listing.listed(root / "deep", KINDS).files]
    assert below == ["sub/four.md", "three.txt"]
