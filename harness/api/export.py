"""Files for a paper or another tool: runs, values, a table and figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from harness.api.comparison import difference
from harness.api.drawing import KINDS, draw_differences, draw_forest
from harness.api.paper_table import Table
from harness.core.errors import UnknownName
from harness.core.files import write_text
from harness.core.formats import to_csv
from harness.core.scores import Paired, Scores
from harness.corpus import trec
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.pipeline.layout import Layout
from harness.pipeline.score import check_scores
from harness.stats.inference import Inference


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


def export(layout: Layout, wanted: ExportRequest, sure: Inference, to: Path) -> tuple[Path, ...]:
    """Write TREC runs and judgements, values by query, a table and figures into ``to``.

    Returns the files written. No engine runs, and existing values are used. Nothing is written
    before all values are known to be those of the runs. Runs and figures of an earlier export that
    this one does not have are removed.

    Raises:
        UnknownName: the control, an arm, a measure or a format is unknown.
        BadFile, EvidenceError: scores are missing, or a file was changed since.
        HarnessError, OSError: ``to`` has files of another command, or cannot be written.
    """
    for kind in wanted.figures:
        if kind not in KINDS:
            raise UnknownName("format of figures", kind, KINDS)
    scores = _scores(layout, wanted)
    data, first = Prepared.open(layout.data), wanted.measures[0]
    together = data.clusters()
    table = Table.of(
        {arm: {name: of[name].by_query for name in wanted.measures} for arm, of in scores.items()},
        {arm: len(of[first].unanswered) for arm, of in scores.items()},
        baseline=wanted.control, test="permutation", correction="holm", sure=sure,
        clusters=together,
    )  # fmt: skip
    runs = {to / "runs" / f"{arm}.trec": read_run(layout.run(arm)) for arm in table.systems}
    texts = {
        to / "table.csv": table.to_csv(),
        to / "table.md": table.to_markdown(),
        to / "table.tex": table.to_latex(),
        to / "per_query.csv": values_csv(
            {arm: scores[arm] for arm in table.systems}, wanted.measures
        ),
    }
    drawings = {"forest": draw_forest(table)} if table.pairs else {}
    for arm in (one for one in table.systems if one != wanted.control):
        arms = wanted.control, arm
        paired = Paired.of(*(scores[one][first] for one in arms))
        drawings[f"differences-{arm}"] = draw_differences(difference(paired, arms, sure, together))
    figures = {to / f"{n}.{kind}": drawings[n] for n, kind in product(drawings, wanted.figures)}
    earlier = (
        "runs/*.trec",
        *(f"{n}.{kind}" for n in ("forest", "differences-*") for kind in KINDS),
    )
    for stale in {path for pattern in earlier for path in to.glob(pattern)} - {*runs, *figures}:
        stale.unlink()
    for path, text in texts.items():
        write_text(path, text)
    trec.write_qrels(qrels := to / "qrels.trec", data.qrels())
    for path, run in runs.items():
        trec.write_run(path, run)
    for path, drawing in figures.items():
        drawing.save(path)
    return (*texts, qrels, *runs, *figures)


def _scores(layout: Layout, wanted: ExportRequest) -> Mapping[str, Mapping[str, Scores]]:
    found = {arm: of for (arm,), of in layout.read(Layout.per_query).items()}
    arms = dict.fromkeys((wanted.control, *(wanted.arms or found)))
    for arm in arms:
        if arm not in found:
            raise UnknownName("arm that was scored", arm, found)
        if lacking := [name for name in wanted.measures if name not in found[arm]]:
            raise UnknownName(f"measure of {arm}", lacking[0], found[arm])
    check_scores(layout, tuple(found))
    return {arm: found[arm] for arm in arms}


def values_csv(scores: Mapping[str, Mapping[str, Scores]], measures: Sequence[str]) -> str:
    """Write a row an arm, measure and query; a query without a value is left empty, with why."""
    names = ("arm", "measure", "query_id", "value", "undefined")
    rows: list[tuple[object, ...]] = []
    for (arm, of), measure in product(scores.items(), measures):
        rows += [(arm, measure, q, value, "") for q, value in of[measure].by_query.items()]
        for why, ids in of[measure].undefined.items():
            rows += [(arm, measure, q, None, why) for q in ids]
    return to_csv(names, (dict(zip(names, row, strict=True)) for row in rows))
