"""Kinds of files: read once, written whole, refused by name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from harness.core import reading
from harness.core.errors import BadFile
from harness.core.store import Artifact, Journal, Json, JsonLines
from tests import cold

REMEDY = "Run: harness score."


@dataclass(frozen=True)
class Mean:
    """A mean of an arm."""

    arm: str
    value: float
    queries: int = 0


class Note(BaseModel):
    """A note of somebody."""

    model_config = ConfigDict(extra="forbid")
    by: str
    counts: tuple[int, ...] = ()


NOTES: Journal[Note] = JsonLines("a note", Note, remedy="Fix it.")


def means() -> Artifact[list[Mean]]:
    return Json("means", list[Mean], remedy=REMEDY)


def test_a_file_is_parsed_again_where_its_bytes_changed_and_nothing_else(tmp_path: Path) -> None:
    parsed: list[str] = []

    def read(path: Path) -> list[str]:
        parsed.append(path.read_text())
        return [path.read_text()]

    kind, path = Artifact("text", read, keep=2), tmp_path / "file"
    path.write_text("old")
    about = path.stat()
    assert kind.read(path) is kind.read(path)
    path.write_text("new")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert kind.read(path) == ["new"]
    assert parsed == ["old", "new"]


def test_few_values_are_kept(tmp_path: Path) -> None:
    parsed: list[str] = []

    def read(path: Path) -> str:
        parsed.append(path.name)
        return path.name

    kind = Artifact("text", read, keep=2)
    for name in "abcab":
        (tmp_path / name).write_text(name)
        kind.read(tmp_path / name)
    assert parsed == [*"abcab"]
    kind.read(tmp_path / "b")
    assert parsed == [*"abcab"]


def test_what_a_process_wrote_it_does_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Artifact, "write", cold.handing_on)
    opened: list[Path] = []
    monkeypatch.setattr(reading, "opened", opened.append)
    monkeypatch.setattr("harness.core.digest.opened", opened.append)
    kind, path, value = means(), tmp_path / "means.json", [Mean("fts5", 0.5)]
    kind.write(path, value)
    assert kind.read(path) is value
    assert opened == []


def test_what_was_written_and_edited_since_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Artifact, "write", cold.handing_on)
    kind, path = means(), tmp_path / "means.json"
    kind.write(path, [Mean("fts5", 0.5)])
    path.write_text('[{"arm": "fts5", "value": 0.25}]')
    assert kind.read(path) == [Mean("fts5", 0.25)]


def test_the_same_value_gives_the_same_bytes_and_is_read_again(tmp_path: Path) -> None:
    value = [Mean("fts5", 0.5), Mean("tantivy", 1e-300, 3)]
    for name in ("one", "two"):
        means().write(tmp_path / name, value)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert means().read(tmp_path / "one") == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not means"),
        ('[{"arm": "a", "value": "x"}]', "0.value: Input should be a valid number"),
        ('[{"arm": "a"}]', "0.value: Field required"),
        ('{"arm": 1, "arm": 2}', "the key 'arm' comes twice"),
    ],
)
def test_what_is_not_of_the_kind_is_named_with_key_and_remedy(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "means.json"
    path.write_text(text)
    with pytest.raises(BadFile, match=r"means\.json") as refused:
        means().read(path)
    assert said in str(refused.value)
    assert str(refused.value).endswith(REMEDY)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"none\.json: no such file\. Run it\.$"):
        means().read(tmp_path / "none.json", "Run it.")


def test_a_reader_may_say_more(tmp_path: Path) -> None:
    def read(path: Path) -> str:
        raise BadFile(path, "of another day", "Wait.", 7)

    (tmp_path / "file").write_text("")
    with pytest.raises(BadFile, match="file:7: of another day"):
        Artifact("text", read).read(tmp_path / "file")


def test_a_file_that_is_not_the_model_names_the_line_of_its_fault(tmp_path: Path) -> None:
    path = tmp_path / "note.json"
    path.write_text('{"by":\n"me",\n}')
    with pytest.raises(BadFile, match=r"note\.json:3: not a note"):
        Json("a note", Note).read(path)
    path.write_text("3")
    with pytest.raises(BadFile, match=r"note\.json: the file: Input should be"):
        Json("a note", Note).read(path)


def test_a_journal_grows_by_records_a_line(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    NOTES.append(path, [Note(by="me", counts=(1, 2))])
    NOTES.append(path, [Note(by="you"), Note(by="é")])
    assert path.read_text().splitlines()[0] == '{"by":"me","counts":[1,2]}'
    assert [note.by for note in NOTES.read(path)] == ["me", "you", "é"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"by": "me", "counts": [1, "x"]}', r"note:2: counts\.1: Input should be"),
        ("{}", r"note:2: by: Field required\. Fix it\."),
        ("[]", r"note:2: the line: Input should be"),
        ('{"by": "me",', r"note:2: not a note"),
        ('{"by": "me", "by": "you"}', r"note:2: not a note .*twice"),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "note"
    path.write_text(f'{{"by": "me"}}\n{text}\n')
    with pytest.raises(BadFile, match=said):
        NOTES.read(path)
