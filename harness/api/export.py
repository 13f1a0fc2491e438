"""Files for a paper or another tool: runs, values, tables and figures."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path

from harness.api.comparison import Leaderboard, ranked
from harness.api.drawing import KINDS, draw_differences, draw_forest
from harness.core import digest
from harness.core.errors import HarnessError, UnknownName
from harness.core.files import replacing_folder, write_json, write_text
from harness.core.folders import EXPORT, check_free, mark, set_mark
from harness.core.formats import json_file, to_csv
from harness.core.scores import Scores
from harness.corpus import trec
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.pipeline.layout import Layout
from harness.pipeline.score import check_scores
from harness.stats.inference import Inference

LIST = "export.json"
FORMAT = 1
HINT = "Move it away, or name another folder"


@contextmanager
def exported(
    to: Path, about: Mapping[str, object], *, reads: Sequence[Path] = (), project: str = ""
) -> Iterator[Path]:
    """Return an empty folder to fill; without an error it becomes ``to``, with a list of its files.

    ``about`` describes the export, in that list.
    """
    check(to, reads)
    with replacing_folder(to.resolve()) as beside:
        yield beside
        of_files = {name: digest.of_file(path) for name, path in _files(beside).items()}
        write_json(beside / LIST, {"format": FORMAT, "of": dict(about), "sha256": of_files})
        set_mark(beside, EXPORT, project)


def check(to: Path, reads: Sequence[Path] = ()) -> None:
    """Refuse a folder that is neither missing, empty nor an unchanged earlier export."""
    check_free(to, EXPORT, reads=reads, known=lambda folder: (folder / LIST).is_file())
    found = _files(to.resolve())
    found.pop(mark(to, EXPORT).name, None)
    listed = json_file(found.pop(LIST)) if LIST in found else {"sha256": {}}
    of_files = listed.get("sha256") if isinstance(listed, dict) else None
    if not isinstance(of_files, dict):
        raise HarnessError(f"{to / LIST}: is not of an earlier export. {HINT}")
    for name, path in found.items():
        if name not in of_files:
            raise HarnessError(f"{to / name}: is not of an earlier export. {HINT}")
        if path.is_symlink() or digest.of_file(path) != of_files[name]:
            raise HarnessError(f"{to / name}: was changed since it was exported. {HINT}")


def _files(folder: Path) -> dict[str, Path]:
    """Find what is no folder, by its path in ``folder``, in the order of names."""
    found = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    return {path.relative_to(folder).as_posix(): path for path in sorted(found)}


TABLE = "table"
PER_QUERY = "per_query.csv"
QRELS = "qrels.trec"


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """Selection of what is exported."""

    control: str
    arms: tuple[str, ...]
    """Arms to export; empty for every scored arm."""
    measures: tuple[str, ...]
    """Measures to export; the first one orders the table, and its differences are drawn."""
    figures: tuple[str, ...]
    """Formats of ``harness.api.drawing.KINDS``; empty for no figures."""


def export(
    layout: Layout,
    wanted: ExportRequest,
    sure: Inference,
    to: Path,
    *,
    reads: Sequence[Path] = (),
    project: str = "",
) -> tuple[Path, ...]:
    """Write TREC runs and judgements, values by query, tables and figures into ``to``.

    Returns the files written. No engine runs, and existing values are used. The folder is written
    whole or not at all. It replaces an earlier export and refuses anything else. ``reads`` are
    input folders that must not be overwritten; ``project`` is named in the folder's mark.

    Raises:
        UnknownName: the control, an arm, a measure or a format is unknown.
        BadFile, EvidenceError: scores are missing, or a file was changed since.
        HarnessError, OSError: ``to`` has files of another command, or cannot be written.
    """
    reads = (*reads, layout.root)
    check(to, reads)
    for kind in wanted.figures:
        if kind not in KINDS:
            raise UnknownName("format of figures", kind, KINDS)
    scores = _scores(layout, wanted)
    together = Prepared.open(layout.data).clusters()
    board = ranked(scores, wanted.control, wanted.measures, sure, together)
    named = {"arms": tuple(board.scores), "data": layout.root.name}
    about = {**asdict(wanted), **asdict(sure), **named}
    with exported(to, about, reads=reads, project=project) as beside:
        rows = board.rows()
        write_text(beside / f"{TABLE}.csv", to_csv([*rows[0]], rows))
        write_text(beside / f"{TABLE}.md", board.paper().to_markdown())
        write_text(beside / f"{TABLE}.tex", board.paper().to_latex())
        write_values(board, beside / PER_QUERY)
        trec.write_qrels(beside / QRELS, Prepared.open(layout.data).qrels())
        for arm in board.scores:
            trec.write_run(beside / "runs" / f"{arm}.trec", read_run(layout.run(arm)))
        drawings = {"forest": draw_forest(board)} | {
            f"differences-{arm}": draw_differences(found)
            for (arm, measure), found in board.differences.items()
            if measure == board.measures[0]
        }
        for name, kind in product(drawings, wanted.figures):
            drawings[name].save(beside / f"{name}.{kind}")
    return tuple(sorted(path for path in to.rglob("*") if path.is_file()))


def _scores(layout: Layout, wanted: ExportRequest) -> Mapping[str, Mapping[str, Scores]]:
    found = {arm: of for (arm,), of in layout.read(Layout.per_query).items()}
    named = (wanted.control, *wanted.arms) if wanted.arms else tuple(found)
    for arm in (wanted.control, *named):
        if arm not in found:
            raise UnknownName("arm that was scored", arm, found)
    check_scores(layout, tuple(found))
    return {arm: found[arm] for arm in dict.fromkeys(named)}


def write_values(board: Leaderboard, to: Path) -> None:
    """Write a row an arm, measure and query; a query without a value is left empty, with why."""
    names = ("arm", "measure", "query_id", "value", "undefined")
    rows: list[tuple[object, ...]] = []
    for (arm, of), measure in product(board.scores.items(), board.measures):
        rows += [(arm, measure, q, value, "") for q, value in of[measure].by_query.items()]
        for why, ids in of[measure].undefined.items():
            rows += [(arm, measure, q, None, why) for q in ids]
    write_text(to, to_csv(names, (dict(zip(names, row, strict=True)) for row in rows)))
