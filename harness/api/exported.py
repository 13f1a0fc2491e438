"""A folder that is written whole, with a list of its files, so that a new export may replace it.

``export.json`` lists every file with its digest. A new export replaces a folder only if all its
files are in that list and unchanged. Any other folder that is not empty is refused, and the
offending file is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.core import digest
from harness.core.disk import REMEDIES
from harness.core.durable.owned import EXPORT, check_free, mark, set_mark
from harness.core.errors import HarnessError
from harness.core.files import replacing_folder, write_json
from harness.core.formats import json_file

LIST = "export.json"
FORMAT = 1
HINT = "Move it away, or name another folder"


class Listed(BaseModel):
    """``export.json``."""

    model_config = ConfigDict(frozen=True, strict=True)

    version: int = Field(alias="format", ge=FORMAT, le=FORMAT)
    sha256: Mapping[str, str]
    """Of each file, by its path in the folder."""


@contextmanager
def exported(
    to: Path, about: Mapping[str, object], *, reads: Sequence[Path] = (), project: str = ""
) -> Iterator[Path]:
    """Give an empty folder to fill; without an error it becomes ``to``, with a list of its files.

    ``about`` describes the export, in that list.

    Raises:
        HarnessError: ``to`` has files that are not of an earlier export, is an input (``reads``),
            or cannot be written.
    """
    check(to, reads)
    try:
        with replacing_folder(to.resolve()) as beside:
            yield beside
            of_files = {name: digest.of_file(path) for name, path in _files(beside).items()}
            write_json(beside / LIST, {"format": FORMAT, "of": dict(about), "sha256": of_files})
            set_mark(beside, EXPORT, project)
    except OSError as exc:
        remedy = REMEDIES.get(exc.errno or 0, HINT)
        raise HarnessError(f"{to}: cannot be written ({exc.strerror}). {remedy}") from exc


def check(to: Path, reads: Sequence[Path] = ()) -> None:
    """Accept a missing or empty folder, or an unchanged earlier export.

    Raises:
        HarnessError: the folder is anything else.
    """
    check_free(to, EXPORT, reads=reads, known=lambda folder: (folder / LIST).is_file())
    found = _files(to.resolve())
    found.pop(mark(to, EXPORT).name, None)
    of_files = _listed(to / LIST, found.pop(LIST)) if LIST in found else {}
    for name, path in found.items():
        if name not in of_files:
            raise HarnessError(f"{to / name}: is not of an earlier export. {HINT}")
        if path.is_symlink() or digest.of_file(path) != of_files[name]:
            raise HarnessError(f"{to / name}: was changed since it was exported. {HINT}")


def _files(folder: Path) -> dict[str, Path]:
    """Find what is no folder, by its path in ``folder``, in the order of names."""
    found = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    return {path.relative_to(folder).as_posix(): path for path in sorted(found)}


def _listed(name: Path, path: Path) -> Mapping[str, str]:
    """Read a list.

    Raises:
        HarnessError: it is somebody else's file of this name.
    """
    try:
        return Listed.model_validate(json_file(path)).sha256
    except (OSError, ValueError, ValidationError) as exc:
        raise HarnessError(f"{name}: is not of an earlier export. {HINT}") from exc
