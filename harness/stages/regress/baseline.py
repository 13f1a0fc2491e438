"""What an earlier release left: in a folder, or by ``dvc.lock`` of a revision from DVC's cache."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from harness.core.digest import of_file
from harness.core.errors import BadFile, EvidenceError
from harness.core.formats import json_file, yaml_of
from harness.core.reading import Malformed
from harness.stages.custody.dvc_lock import FOLDER, LOCK
from harness.stages.layout import Layout

CACHE = Path(".dvc") / "cache" / "files" / "md5"
TIMED = frozenset({"race.json", "findings.json"})
"""Receipts of files with times: DVC keeps their digests alone, and nothing here reads them."""
WITHIN = ("", "build", "work/build")
"""Where below a folder a data set may lie: itself, a project's, or a run's."""


def of_folder(folder: Path, dataset: str) -> Layout:
    """Find the data set in a project, a ``build`` folder, or what ``harness run`` left.

    Raises:
        BadFile: it is not there.
    """
    for place in WITHIN:
        if (folder / place / dataset / "data").is_dir():
            return _layout(folder / place / dataset)
    raise BadFile(
        folder,
        f"holds no evidence of {dataset}",
        "Give a project, its build folder, or the --out of a harness run",
    )


def of_revision(root: Path, revision: str, dataset: str, to: Path) -> Layout:
    """Bring what ``revision`` recorded of the data set out of DVC's cache into the folder ``to``.

    Raises:
        EvidenceError: the revision is unknown, it recorded nothing of the data set, or the cache
            does not hold what it recorded.
        BadFile: its ``dvc.lock`` is not what DVC writes.
    """
    text = _git(root, "show", f"{_commit(root, revision)}:{LOCK}")
    prefix = f"build/{dataset}/"
    try:
        outs = [
            (out["path"], out["md5"])
            for stage in yaml_of(text)["stages"].values()
            for out in stage["outs"]
            if out["path"].startswith(prefix)
        ]
    except (Malformed, KeyError, TypeError, AttributeError) as exc:
        problem = f"of {revision} is not what DVC writes ({exc!r})"
        raise BadFile(root / LOCK, problem, "Name another revision") from exc
    if not outs:
        raise EvidenceError(f"{LOCK} of {revision} records nothing of {dataset}")
    for path, md5 in outs:
        if Path(path).name in TIMED:
            continue
        for name, digest in _files(root, path, md5):
            _bring(root, digest, to / name, f"{name} of {revision}")
    return _layout(to / prefix)


def _layout(folder: Path) -> Layout:
    return Layout(folder, folder, folder)


def _commit(root: Path, revision: str) -> str:
    return _git(
        root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
    ).strip()


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(  # noqa: S603  no shell; a revision is no option
        ["git", "-C", str(root), *words],  # noqa: S607  the one on the path
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip() or "no such revision"
        raise EvidenceError(
            f"git {' '.join(words[-1:])}: {said}. Name a revision of {root}, or a folder"
        )
    return done.stdout


def _files(root: Path, path: str, md5: str) -> Iterator[tuple[str, str]]:
    """Yield path and digest of each file of an output."""
    if not md5.endswith(FOLDER):
        yield path, md5
        return
    listing = _cached(root, md5, path)
    try:
        rows = [(str(row["relpath"]), str(row["md5"])) for row in json_file(listing)]
    except (Malformed, KeyError, TypeError) as exc:
        raise EvidenceError(f"{listing}: is not a list of files ({exc!r}). Fetch it again") from exc
    for name, of in rows:
        yield f"{path}/{name}", of


def _bring(root: Path, md5: str, to: Path, what: str) -> None:
    if ".." in to.parts:
        raise EvidenceError(f"{what} would lie elsewhere. Name another revision")
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_cached(root, md5, what), to)


def _cached(root: Path, md5: str, what: str) -> Path:
    """Find a file of the cache, and hold it against its name."""
    path = root / CACHE / md5[:2] / md5[2:]
    if not path.is_file():
        raise EvidenceError(
            f"{what} is not in {CACHE}. Fetch it (dvc fetch), or check the revision out beside, run"
            " the demo there, and give its folder"
        )
    found = of_file(path, "md5")
    if found != md5.removesuffix(FOLDER):
        raise EvidenceError(f"{path}: is not what its name says. Remove it, and fetch it again")
    return path
