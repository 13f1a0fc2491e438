"""Kinds of files: read once, written whole, refused by name."""

import json
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pydantic import BaseModel, ConfigDict

from harness.core import digest
from harness.core.errors import BadFile
from harness.core.folders import changing, cut_off, journal_of
from harness.core.records import Document, Query
from harness.core.store import Artifact, Journal, Json, JsonLines
from tests.make.damage import killed

REMEDY = "Run: harness score."


@dataclass(frozen=True)
class Mean:
    """A mean of an arm."""

    arm: str
    value: float


class Note(BaseModel):
    """A note of somebody."""

    model_config = ConfigDict(extra="forbid")
    by: str
    counts: tuple[int, ...] = ()


NOTES: Journal[Note] = JsonLines("a note", Note, remedy="Fix it.")


MEANS: Artifact[list[Mean]] = Json("means", list[Mean], remedy=REMEDY)


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "not means"),
     ('[{"arm": "a", "value": "x"}]', "0.value: Input should be a valid number"),
     ('[{"arm": "a"}]', "0.value: Field required"),
     ('{"arm": 1, "arm": 2}', "the key 'arm' comes twice")],
)  # fmt: skip
def test_what_is_not_of_the_kind_is_named_with_key_and_remedy(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "means.json"
    path.write_text(text)
    with pytest.raises(BadFile, match=rf"means\.json.*{said}.*{REMEDY}$"):
        MEANS.read(path)


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


@pytest.mark.parametrize(
    ("text", "said"),
    [('{"by": "me", "counts": [1, "x"]}', r"note:2: counts\.1: Input should be"),
     ("{}", r"note:2: by: Field required\. Fix it\."),
     ("[]", r"note:2: the line: Input should be"), ('{"by": "me",', r"note:2: not a note"),
     ('{"by": "me", "by": "you"}', r"note:2: not a note .*twice")],
)  # fmt: skip
def test_a_line_that_is_no_record_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "note"
    path.write_text(f'{{"by": "me"}}\n{text}\n')
    with pytest.raises(BadFile, match=said):
        NOTES.read(path)


# Digests: the same for the same, another for anything else, and the same tomorrow

DOCUMENT = Document("d1", "Title", "Text é", {"year": 1999, "kind": None})
QUERY = Query("q1", "what?", ("natural",), "i1")


def test_a_file_is_read_once_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opened = tmp_path / "file", Mock(side_effect=lambda path: path.open("rb"))
    monkeypatch.setattr(digest, "opened", opened)
    path.write_bytes(b"old")
    about = path.stat()
    time.sleep(2 * digest.SETTLED_NS / 1e9)
    assert digest.of_file(path) == digest.of_file(path) == digest.of_bytes(b"old")
    opened.assert_called_once_with(path)
    path.write_bytes(b"new")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    time.sleep(2 * digest.SETTLED_NS / 1e9)
    assert digest.of_file(path) == digest.of_bytes(b"new")


def test_a_change_within_one_tick_of_the_clock_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    about = path.stat()
    monkeypatch.setattr(time, "time_ns", lambda: about.st_ctime_ns + 1)
    monkeypatch.setattr(Path, "stat", lambda _: about)
    assert digest.of_file(path) == digest.of_bytes(b"old")
    path.write_bytes(b"new")
    assert digest.of_file(path) == digest.of_bytes(b"new")


@pytest.mark.parametrize(
    "changed",
    [{"doc_id": "d2"}, {"title": "Titl", "text": "eText é"}, {"text": ""}, {"metadata": {}},
     {"metadata": {"year": 1999.5, "kind": None}}, {"metadata": {"year": "1999", "kind": None}}],
)  # fmt: skip
def test_every_part_of_a_document_counts(changed: dict[str, Any]) -> None:
    other = replace(DOCUMENT, **changed)
    assert digest.of_documents([other]) != digest.of_documents([DOCUMENT])


@pytest.mark.parametrize(
    "changed", [{"query_id": "q2"}, {"text": "what"}, {"slices": ()}, {"intent": None}]
)
def test_every_part_of_a_query_counts(changed: dict[str, Any]) -> None:
    assert digest.of_queries([replace(QUERY, **changed)]) != digest.of_queries([QUERY])


def test_the_order_of_documents_counts_and_that_of_metadata_does_not() -> None:
    other = replace(DOCUMENT, doc_id="d2")
    assert digest.of_documents([DOCUMENT, other]) != digest.of_documents([other, DOCUMENT])
    turned = replace(DOCUMENT, metadata={"kind": None, "year": 1999})
    assert digest.of_documents([turned]) == digest.of_documents([DOCUMENT])


# A change of several files is made whole or not at all, wherever it is cut off

NAMES = ("thing", "beside", "new/third")


def state(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


def change(folder: Path, value: str) -> None:
    with changing(folder / "thing", within=[folder], what=f"set to {value}") as made:
        for name in NAMES:
            made.write(folder / name, value)


def dies_at(folder: Path, step: int) -> None:
    """Set the three files to "new" in a process that is killed after so many durable steps."""
    killed(f"""
        from harness.core import folders as journal
        step = {step}
        def counted(call):
            def run(*args, **more):
                global step
                if not step:
                    os.kill(os.getpid(), signal.SIGKILL)
                step -= 1
                return call(*args, **more)
            return run
        for name in ("write_json", "write_text", "remove"):
            setattr(journal, name, counted(getattr(journal, name)))
        folder = Path({str(folder)!r})
        with journal.changing(folder / "thing", within=[folder], what="set to new") as made:
            for name in {NAMES}:
                made.write(folder / name, "new")
        os.kill(os.getpid(), signal.SIGKILL)
    """)


@pytest.mark.parametrize("step", range(6))
def test_a_change_that_was_cut_off_is_completed_or_was_never_made(
    tmp_path: Path, step: int
) -> None:
    change(tmp_path, "old")
    dies_at(tmp_path, step)
    begun = 1 <= step < 5
    assert cut_off(tmp_path / "thing") == begun
    with changing(tmp_path / "thing", within=[tmp_path], what="look") as made:
        assert made.resumed == ("set to new" if begun else "")
        assert state(tmp_path) == dict.fromkeys(NAMES, "new" if step else "old")
    assert not cut_off(tmp_path / "thing")
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(".")]


def test_a_file_that_somebody_changed_since_is_not_written_over(tmp_path: Path) -> None:
    change(tmp_path, "old")
    dies_at(tmp_path, 2)
    (tmp_path / "beside").write_text("by hand")
    with pytest.raises(BadFile, match="beside was changed since"):
        change(tmp_path, "newer")
    assert state(tmp_path) == {"thing": "new", "beside": "by hand", "new/third": "old"}


@pytest.mark.parametrize("stands", [True, False])
def test_a_prepared_change_is_made_once_its_proof_stands(tmp_path: Path, *, stands: bool) -> None:
    """An import that is killed before its folder stands changes no judgement."""
    proof = tmp_path / "proof"
    with (
        suppress(KeyboardInterrupt),
        changing(tmp_path / "thing", within=[tmp_path], what="import") as made,
    ):
        made.write(tmp_path / "beside", "new")
        made.prepare(proof, digest.of_bytes(b"whole"))
        raise KeyboardInterrupt
    proof.write_text("whole" if stands else "half")
    with changing(tmp_path / "thing", within=[tmp_path], what="look") as made:
        assert made.resumed == ("import" if stands else "")
    assert (tmp_path / "beside").exists() == stands
    assert not cut_off(tmp_path / "thing")


def test_a_file_outside_is_refused_also_where_a_journal_names_it(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    with (
        pytest.raises(ValueError, match="none of the folders"),
        changing(inside / "thing", within=[inside], what="set") as made,
    ):
        made.write(inside / ".." / "outside", "new")
    planted = {"what": "", "files": [["../outside", "", "planted"]]}
    journal_of(inside / "thing").write_text(json.dumps(planted))
    with pytest.raises(BadFile, match="not a journal"):
        change(inside, "new")
    assert not (tmp_path / "outside").exists()
