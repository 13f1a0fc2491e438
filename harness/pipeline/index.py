"""Stage ``index``: build one arm's index of one data set and hand on its manifest."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.core.digest import of_files
from harness.core.engine import KeepsVectors, Manifest, Searcher, VectorAgreement
from harness.core.errors import EvidenceError, IndexNotReady
from harness.core.files import replacing_folder, write_text
from harness.core.folders import is_stray
from harness.core.reading import text_of
from harness.corpus import tuning
from harness.corpus.prepared import Prepared
from harness.pipeline import receipts
from harness.pipeline.layout import FILES, MADE_WITH, NOTES, Layout
from harness_engines import registry as arms
from harness_engines.registry import Arm

OURS = arms.__name__.split(".")[0]


def index(layout: Layout, arm_name: str, cache: Path) -> Manifest:
    """Build the index beside, put it in place, and write its manifest."""
    arm = arms.load(arm_name, cache)
    documents = Prepared.open(layout.data).documents()
    with replacing_folder(layout.index(arm.name)) as folder:
        manifest = arm.build(documents, folder)
        note_files(folder)
        (folder / MADE_WITH).write_text(of_files(sources(arm)), encoding="utf-8")
    layout.write(Layout.manifest, manifest, arm.name)
    kept = layout.tuning(arm.name)
    if arm.tuning is None:
        kept.unlink(missing_ok=True)
    else:
        write_text(kept, tuning.read(arm.tuning).model_dump_json(indent=2) + "\n")
    return manifest


def note_files(folder: Path) -> None:
    """Note the digest of each file of an index, as it was built."""
    receipts.write(folder / FILES, _files(folder))


def _files(folder: Path) -> list[Path]:
    """List all that stands in an index's folder, but for what the harness notes there."""
    notes = {folder / name for name in NOTES}
    found = (path for path in folder.rglob("*") if not path.is_dir() and path not in notes)
    return sorted(path for path in found if not is_stray(path.relative_to(folder)))


def sources(arm: Arm) -> tuple[Path, ...]:
    """Files that say what the arm is: its TOML, its tuning record, and the Python beside it."""
    record = (arm.tuning,) if arm.tuning and arm.tuning.is_file() else ()
    return (arm.path, *record, *sorted(arm.path.parent.glob("*.py")))


def check_index(layout: Layout, arm: Arm) -> None:
    """Compare the arm, and the files of an index of ours, with what they were when it was built."""
    check_settings(layout, arm)
    if type(arm.engine).__module__.split(".")[0] != OURS:
        return
    folder, hint = layout.index(arm.name), _hint(layout, arm)
    try:
        noted = receipts.check_all(folder / FILES, hint)
    except EvidenceError as exc:
        raise IndexNotReady(str(exc)) from exc
    if strange := [path for path in _files(folder) if path not in noted]:
        raise IndexNotReady(f"{strange[0]}: came into the index after it was built. {hint}")


def check_settings(layout: Layout, arm: Arm) -> None:
    """Compare the arm with the one that its index was built with."""
    hint = _hint(layout, arm)
    noted = layout.index(arm.name) / MADE_WITH
    if not noted.is_file():
        raise IndexNotReady(f"{layout.index(arm.name)}: no index here. {hint}")
    if text_of(noted) != of_files(sources(arm)):
        raise IndexNotReady(f"{arm.path}: was changed since the arm's index was built. {hint}")


def _hint(layout: Layout, arm: Arm) -> str:
    named = arm.name if arm.name in arms.names() else str(arm.path)
    return layout.remedy(Layout.index, named)


@contextmanager
def opened(layout: Layout, arm: Arm) -> Iterator[Searcher]:
    """Open an arm's index, which is the one that was handed on, and was not changed since."""
    wanted = receipts.read_manifest(layout, arm.name)
    check_index(layout, arm)
    with arm.open(layout.index(arm.name)) as searcher:
        receipts.check_same(layout, arm.name, wanted, searcher.manifest)
        yield searcher


@dataclass(frozen=True, slots=True)
class Opener:
    """A value that a new process can be sent."""

    arm: str
    index: Path
    cache: Path
    fingerprint: str

    @classmethod
    def of(cls, layout: Layout, arm: Arm, cache: Path) -> "Opener":
        """Name the places of an arm so that a process that works elsewhere finds them."""
        fingerprint = receipts.read_manifest(layout, arm.name).fingerprint
        index = layout.index(arm.name).absolute()
        return cls(str(arm.path.absolute()), index, cache.absolute(), fingerprint)

    @contextmanager
    def __call__(self) -> Iterator[Searcher]:
        """Open the arm."""
        arm = arms.load(self.arm, self.cache)
        with arm.open(self.index) as searcher:
            if searcher.manifest.fingerprint != self.fingerprint:
                raise IndexNotReady(
                    f"{self.index}: is not the index that {arm.name} was replayed on. Run:"
                    f" harness stage index --arm {arm.name}, then:"
                    f" harness stage replay --arm {arm.name}"
                )
            yield searcher


VECTORS = Path("reports") / "vectors"


def keep_vectors(root: Path, layout: Layout, names: Iterable[str], cache: Path) -> None:
    """Write the vectors of a data set's documents and queries, for arms that have some."""
    data = Prepared.open(layout.data)
    queries = [query.text for query in data.queries()]
    for name in names:
        engine = arms.load(name, cache).engine
        if isinstance(engine, KeepsVectors):
            engine.keep_vectors(data.documents(), queries, root / VECTORS)


def take_vectors(root: Path, layout: Layout, name: str, cache: Path) -> VectorAgreement | None:
    """Use the vectors of the record for an arm, if fresh ones of a sample agree."""
    folder = root / VECTORS
    engine = arms.load(name, cache).engine
    if not folder.is_dir() or not isinstance(engine, KeepsVectors):
        return None
    data = Prepared.open(layout.data)
    queries = [query.text for query in data.queries()]
    return engine.take_vectors(data.documents(), queries, folder)
