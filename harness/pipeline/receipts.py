"""Receipts of stages, proofs of arms, dates of replays, and what DVC and git recorded."""

import hashlib
import json
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from os.path import normpath, relpath
from pathlib import Path
from typing import NamedTuple

from harness.core import digest
from harness.core.engine import Manifest
from harness.core.errors import BadFile, EvidenceError, IndexNotReady
from harness.core.files import LEFT_OVER, held, write_text
from harness.core.folders import is_stray
from harness.core.formats import yaml_file
from harness.core.printable import many
from harness.core.reading import text_of
from harness.core.run import Run
from harness.core.store import Artifact, Json
from harness.corpus.cells import without_own
from harness.corpus.prepared import QUERIES, Prepared
from harness.pipeline.layout import NOTES, STATED, Layout, ReplayDate
from harness.policy.validity import check_age, check_past

RECEIPT: Artifact[dict[str, str]] = Json("a receipt", dict[str, str], keep=24)


def write(receipt: Path, files: Iterable[Path]) -> None:
    """Write the digest of each file, by its path as seen from the receipt's folder."""
    RECEIPT.write(receipt, {_name(receipt, path): digest.of_file(path) for path in files})


def check(receipt: Path, files: Iterable[Path], hint: str) -> None:
    """Check ``files`` against the digests in the receipt."""
    noted = _read(receipt, hint)
    for path in files:
        name = _name(receipt, path)
        if name not in noted:
            raise EvidenceError(f"{receipt}: does not list {path}. {hint}")
        if not path.is_file():
            raise EvidenceError(f"{path}: is gone since {receipt} was written. {hint}")
        if digest.of_file(path) != noted[name]:
            raise EvidenceError(f"{path}: was changed since {receipt} was written. {hint}")


def check_all(receipt: Path, hint: str) -> tuple[Path, ...]:
    """Check every file that the receipt lists, and return them."""
    files = tuple(Path(normpath(receipt.parent / name)) for name in _read(receipt, hint))
    check(receipt, files, hint)
    return files


def _read(receipt: Path, hint: str) -> dict[str, str]:
    if not receipt.is_file():
        raise EvidenceError(f"{receipt}: is not there, so nothing was measured yet. {hint}")
    try:
        return RECEIPT.read(receipt, hint)
    except BadFile as exc:
        raise EvidenceError(f"{receipt}: is not a receipt ({exc.problem}). {hint}") from exc


def _name(receipt: Path, path: Path) -> str:
    return Path(relpath(path, receipt.parent)).as_posix()


def note_replayed(
    layout: Layout, arm: str, at: datetime, *, index_sha256: str | None = None
) -> None:
    """Note that the run of ``arm`` which is there was queried from ``at`` on, aware of its zone."""
    run = digest.of_file(layout.run(arm))
    noted = ReplayDate(at.isoformat(timespec="seconds"), run, index_sha256)
    layout.write(Layout.replayed, noted, arm)


def index_files(layout: Layout, arm: str) -> str | None:
    """Count the digest of an arm's index files; None for an engine that runs elsewhere."""
    folder = layout.index(arm)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in NOTES)
    own = ((path.relative_to(folder), path) for path in files)
    named = [(at.as_posix(), digest.of_file(path)) for at, path in own if not is_stray(at)]
    counted = any(path.name not in STATED for path in files)
    return digest.of_json(named) if counted else None


class Replayed(NamedTuple):
    """When the run of an arm was queried, and from what index."""

    run: Path
    note: Path
    hint: str
    at: str | None = None
    index_sha256: str | None = None
    """Digest of the index's files; None where it was not noted."""

    def check(self, now: datetime, evidence_days: int) -> None:
        """Refuse a run that is too old, or of which no one knows how old it is."""
        if self.at is None:
            raise EvidenceError(
                f"{self.note}: does not say when {self.run} was made, so it may be of any age."
                f" {self.hint}"
            )
        try:
            check_age(self.at, now=now, evidence_days=evidence_days)
        except EvidenceError as exc:
            raise EvidenceError(f"{self.run}: {exc}. {self.hint}") from exc


def replayed(layout: Layout, arm: str) -> Replayed:
    """Read when the run of ``arm`` was queried; a note of another run says nothing."""
    run, note = layout.run(arm), layout.replayed(arm)
    unknown = Replayed(run, note, layout.remedy(Layout.run, arm))
    if not (note.is_file() and run.is_file()):
        return unknown
    noted = layout.read(Layout.replayed, arm)
    if noted.run != digest.of_file(run):
        return unknown
    try:
        check_past(noted.at)
    except EvidenceError as exc:
        raise BadFile(note, str(exc), layout.remedy(Layout.replayed, arm)) from exc
    return unknown._replace(at=noted.at, index_sha256=noted.index)


SAMPLE = 50
"""Queries of a second replay that asks a sample: an engine that is not steady shows in fewer."""


def read_manifest(layout: Layout, arm: str) -> Manifest:
    """Read what stage ``index`` handed on."""
    if not (path := layout.manifest(arm)).is_file():
        remedy = layout.remedy(Layout.index, arm)
        raise IndexNotReady(f"{path}: the arm {arm} has no index. {remedy}")
    return layout.read(Layout.manifest, arm)


def check_same(layout: Layout, arm: str, wanted: Manifest, opened: Manifest) -> None:
    """Compare an opened index with what stage ``index`` handed on."""
    if opened != wanted:
        other = f"{opened.fingerprint[:12]} instead of {wanted.fingerprint[:12]}"
        raise IndexNotReady(
            f"{layout.index(arm)}: is not the index that {layout.manifest(arm)} describes"
            f" ({other}). {layout.remedy(Layout.index, arm)}"
        )


def check_corpus(layout: Layout, arm: str, made: Manifest, data: Prepared) -> None:
    """Check an arm's index against the documents, as they are now."""
    if made.corpus_sha256 != data.manifest.corpus_sha256:
        raise IndexNotReady(
            f"{layout.manifest(arm)}: the index was built of other documents than those in"
            f" {layout.data}. {layout.remedy(Layout.index, arm)}"
        )


def record_run(layout: Layout, first: Run, again: Run | None = None) -> Run:
    """Write an arm's runs, without hits that are the query itself; give the first."""
    own = Prepared.open(layout.data).ids().own
    shown = without_own(first, own)
    layout.write(Layout.again, without_own(again, own) if again else shown, first.arm)
    layout.write(Layout.run, shown, first.arm)
    note_run(layout, first.arm)
    return shown


def read_twice(layout: Layout, arm: str) -> tuple[Run, Run]:
    """Read both replays of an arm, of the queries that the second one asked."""
    first, again = layout.read(Layout.run, arm), layout.read(Layout.again, arm)
    if len(again) < min(SAMPLE, len(first)):
        raise EvidenceError(
            f"{layout.again(arm)}: has {many(len(again), 'query')} of {len(first)}, and a sample"
            f" has {SAMPLE}. {layout.remedy(Layout.run, arm)}"
        )
    return first if len(again) == len(first) else first.only(again.query_ids), again


def note_run(layout: Layout, arm: str) -> None:
    """Note what the arm's two runs were made from."""
    write(layout.run_receipt(arm), _files(layout, arm))


def check_run(layout: Layout, arm: str) -> None:
    """Check an arm's runs against its index and the data, as they are now."""
    check_corpus(layout, arm, read_manifest(layout, arm), Prepared.open(layout.data))
    check(layout.run_receipt(arm), _files(layout, arm), layout.remedy(Layout.run, arm))


def _files(layout: Layout, arm: str) -> tuple[Path, ...]:
    return (layout.data / QUERIES, layout.manifest(arm), layout.run(arm), layout.again(arm))


PACKAGES = (
    "ir-measures",
    "numkong",
    "numpy",
    "onnxruntime",
    "pyarrow",
    "scipy",
    "tantivy",
    "tokenizers",
)


def versions() -> dict[str, str]:
    """Return the version of each installed package that moves a number."""
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


LOCK = "dvc.lock"
MAX_LOCK_BYTES = 1 << 19
"""Eight times that of the demo; what is read for longer than some seconds is not a record."""
LOCK_HINT = "Bring it back (git, dvc checkout), or make and record it anew: harness demo --record"
READ = ("datasets/", "qrels/")
"""Of what a stage depends on, the data; the code is not evidence."""
BESIDE = (".lock", ".journal")
FOLDER = ".dir"
SAVED = Path(".dvc") / "tmp" / f"{LOCK}.record"
"""The tracked record while DVC works; left behind only by a process that was killed."""


def local(root: Path) -> Path:
    """Return where this machine's own ``dvc.lock`` lies, which ``harness demo`` keeps."""
    return root / ".dvc" / "tmp" / LOCK


def _recorded(lock: Path) -> tuple[tuple[str, str, str, bool], ...]:
    """List stage, path and digest of what stages read or wrote, and whether they wrote it."""
    return tuple(
        (name, entry["path"], entry["md5"], kind == "outs")
        for name, stage in yaml_file(lock, most=MAX_LOCK_BYTES)["stages"].items()
        for kind in ("deps", "outs")
        for entry in stage.get(kind, ())
        if kind == "outs" or entry["path"].startswith(READ)
    )


RECORDED = Artifact("what DVC writes", _recorded, remedy=LOCK_HINT)


def outputs(root: Path, dataset: str) -> tuple[tuple[str, str, bool], ...]:
    """Stage, path and whether it is as recorded, of each output that the tracked record names."""
    return tuple(
        (name, path, (root / path).exists() and _md5(root / path) == md5)
        for name, path, md5, written in RECORDED.read(root / LOCK)
        if written and _is_of(path, dataset)
    )


def check_recorded(root: Path, dataset: str) -> tuple[Path, ...]:
    """Check all files of ``dataset`` against this machine's ``dvc.lock``, else the tracked one."""
    lock = local(root) if local(root).is_file() else root / LOCK
    if not lock.exists():
        return ()
    found: dict[Path, str] = {}
    for name, path, md5, _ in RECORDED.read(lock):
        item = name.partition("@")[2]
        mine = item == dataset or item.startswith(f"{dataset}-")
        if mine and _is_of(path, dataset) and found.setdefault(root / path, md5) != md5:
            problem = f"stage {name} speaks of another {path} than an earlier one"
            raise BadFile(lock, problem, LOCK_HINT)
    for file, md5 in found.items():
        if not file.exists():
            raise EvidenceError(f"{file}: is gone, and {lock} records it. {LOCK_HINT}")
        if _md5(file) != md5:
            raise EvidenceError(f"{file}: is not what {lock} records. {LOCK_HINT}")
    return tuple(found)


def _is_of(path: str, dataset: str) -> bool:
    """Return whether the path is one of the data set's; ``mail`` is not ``mail-2``."""
    return path.split("/")[1] == dataset


def _md5(path: Path) -> str:
    """Digest as DVC gives it: of a file's bytes, or of the list of a folder's files."""
    if path.is_file():
        return digest.of_file(path, "md5")
    rows = []
    for file in path.rglob("*"):
        name = file.relative_to(path)
        hidden = name.name.startswith(".") and name.name.endswith(BESIDE)
        passed_over = hidden or is_stray(name) or any(p.endswith(LEFT_OVER) for p in name.parts)
        if file.is_file() and not passed_over:  # as .dvcignore says
            rows.append({"md5": _md5(file), "relpath": name.as_posix()})
    text = json.dumps(sorted(rows, key=lambda row: row["relpath"]), sort_keys=True)
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() + FOLDER


@contextmanager
def local_lock(root: Path) -> Iterator[None]:
    """Run DVC on this machine's ``dvc.lock``, and restore the tracked one afterwards."""
    tracked, saved, mine = root / LOCK, root / SAVED, local(root)
    with held(mine, patience_s=float("inf")):
        if saved.is_file():
            saved.replace(tracked)
        recorded = text_of(tracked) if tracked.is_file() else None
        if recorded is not None:
            write_text(saved, recorded)
        try:
            if mine.is_file():
                write_text(tracked, text_of(mine))
            yield
        finally:
            if tracked.is_file():
                write_text(mine, text_of(tracked))
            if recorded is not None:
                saved.replace(tracked)


RECORD = Path("reports") / "record"


def git(root: Path, *words: str, given: str = "") -> str:
    """Return what git prints; empty without git, or where it fails."""
    try:
        done = subprocess.run(  # noqa: S603  our own words
            ["git", "-C", str(root), *words],  # noqa: S607  the one on the path
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return done.stdout if not done.returncode else ""
