"""A change of several files: all of them or none, whenever the process is killed.

The new texts are written into a journal beside the thing, and are on the disk before the first file
is touched. From then on the change is made: whoever holds the thing next writes what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.core import digest
from harness.core.durable.leftovers import sweep
from harness.core.durable.locks import held
from harness.core.errors import BadFile
from harness.core.files import remove, write_json, write_text
from harness.core.formats import json_file

HINT = "Look at the files that it names; remove the journal when they are as they should be"


class Change:
    """Files that are to change together; the last text that a file is given counts."""

    def __init__(self, thing: Path, within: Sequence[Path], what: str) -> None:
        self._journal = journal_of(thing)
        self._within = [folder.resolve() for folder in within]
        self._what = what
        self._texts: dict[Path, str] = {}
        self._proof: tuple[Path, str] | None = None
        self.resumed = ""
        """What was cut off and is complete now; empty where nothing was."""

    def write(self, path: Path, text: str) -> None:
        """Give a file its new text; nothing is written yet."""
        whole = path.resolve()
        if not any(whole.is_relative_to(folder) for folder in self._within):
            raise ValueError(f"{path} is in none of the folders of the change")
        self._texts.pop(whole, None)
        self._texts[whole] = text

    def commit(self) -> None:
        """Write every file, in the order in which they were given, and see them on the disk.

        After it the block may tell a person. A process that is killed before the end of the block
        leaves its journal, and the next one finds in ``resumed`` what was done.
        """
        if self._texts:
            self._note({})
            self._apply()

    def prepare(self, proof: Path, sha256: str) -> None:
        """Write the journal and no file: the change is made when ``proof`` has the digest.

        For files that go with a folder that is replaced. A process that is killed before the folder
        stands leaves a journal that the next one forgets; after it, one that it completes.
        """
        self._proof = proof, sha256
        self._note({"proof": [os.path.relpath(proof.resolve(), self._journal.parent), sha256]})

    def _note(self, more: Mapping[str, Any]) -> None:
        folder = self._journal.parent
        files = [[os.path.relpath(p, folder), _sha256(p), t] for p, t in self._texts.items()]
        write_json(self._journal, {"what": self._what, "files": files, **more}, durable=True)

    def finish(self) -> None:
        """Complete what another process began; its journal stays until this change ends well."""
        if self._journal.exists():
            self.resumed = self._read()
            try:
                self._apply()
            except OSError as exc:
                raise BadFile(self._journal, f"it cannot be completed ({exc})", HINT) from exc

    def abandon(self) -> None:
        """Forget a journal that was prepared for a folder that does not stand."""
        if self._proof and _sha256(self._proof[0]) != self._proof[1]:
            with suppress(OSError):
                self._journal.unlink()

    def close(self) -> None:
        """Commit what was not, and forget the journal."""
        self.commit()
        if self._journal.exists():
            remove(self._journal)

    def _apply(self) -> None:
        for path, text in self._texts.items():
            write_text(path, text, durable=True)
        self._texts = {}

    def _read(self) -> str:
        """Take over the files of the journal, and give what it says it is."""
        try:
            told: Any = json_file(self._journal)
            proof, sha256 = told.get("proof", ("", ""))
            if proof and _sha256(self._journal.parent / str(proof)) != sha256:
                return ""
            for name, was, text in told["files"]:
                path = self._journal.parent / str(name)
                if _sha256(path) not in {was, digest.of_bytes(text.encode())}:
                    raise BadFile(self._journal, f"{path} was changed since it was cut off", HINT)
                self.write(path, text)
            return str(told["what"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            raise BadFile(self._journal, f"it is not a journal of a change ({exc})", HINT) from exc


@contextmanager
def changing(thing: Path, *, within: Sequence[Path], what: str) -> Iterator[Change]:
    """Hold ``thing`` alone, complete what an earlier change of it left, and change it.

    ``within`` are the folders whose files may change, ``what`` names the change in words. An
    exception before ``Change.commit`` changes nothing. A block that ends without it commits. What
    dead writers left in these folders is swept, also where nothing is to be written there.

    Raises:
        Locked: another writer does not come to an end.
        BadFile: the journal is not one, or names a file outside ``within``.
    """
    with held(thing):
        for folder in filter(Path.is_dir, within):
            sweep(folder)
        change = Change(thing, within, what)
        change.finish()
        try:
            yield change
        except BaseException:
            change.abandon()
            raise
        change.close()


def completed(thing: Path, *, within: Sequence[Path]) -> None:
    """Complete a change of ``thing`` that was cut off, if one was; for whoever is to read it.

    Raises:
        Locked, BadFile: as ``changing``.
    """
    if cut_off(thing):
        with changing(thing, within=within, what=""):
            pass


def journal_of(thing: Path) -> Path:
    """Say where the journal of ``thing`` is while a change of it is under way.

    Raises:
        BadFile: it is the root of the file system, beside which there is nothing.
    """
    whole = thing.resolve()
    if not whole.name:
        raise BadFile(thing, "is the root of the file system", "Name a file or a folder in it")
    return whole.with_name(f".{whole.name}.journal")


def cut_off(thing: Path) -> bool:
    """Whether a change of ``thing`` was cut off, and waits for the next writer to complete it."""
    return journal_of(thing).exists()


def _sha256(path: Path) -> str:
    """Digest of a file; empty where there is none."""
    return digest.of_file(path) if path.exists() else ""
