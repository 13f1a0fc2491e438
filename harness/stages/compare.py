"""Stage ``compare``: how alike control and candidate are, and how far apart in quality."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from harness.agreement.agree import agree
from harness.core.errors import BadFile
from harness.core.evidence import Agreement
from harness.core.files import replacing, write_json
from harness.core.scores import Estimate, Paired, Scores
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.corpus.score_table import read_scores, write_scores
from harness.measures.summary import summarise
from harness.stages import receipt
from harness.stages.crosscheck import crosscheck
from harness.stages.layout import Layout
from harness.stages.means import as_json
from harness.stages.params import CompareParams, ScoreParams
from harness.stages.score import FEWEST, check_scores, intents

Pair = tuple[str, str]
"""Control and candidate; an arm with itself is its first replay against its second."""
KEYS = ("control", "candidate")


def compare(
    layout: Layout,
    pairs: Sequence[Pair],
    params: CompareParams,
    sure: ScoreParams,
    *,
    threads: int = 1,
) -> None:
    """Write agreement and paired differences for each pair, and of each control with itself.

    Raises:
        EvidenceError: an arm was not scored or changed since, or an agreement is not what a count
            by hand gives.
    """
    check_scores(layout, _arms(pairs))
    controls = dict.fromkeys((control, control) for control, _ in pairs)
    found: dict[Pair, Agreement] = {}
    for control, candidate in [*pairs, *controls]:
        path = layout.again(control) if control == candidate else layout.run(candidate)
        runs = read_run(layout.run(control)), read_run(path)
        agreement = agree(*runs, depths=params.depths, p=params.rbo_p)
        crosscheck(*runs, agreement, depths=params.depths, seed=sure.seed)
        found[control, candidate] = agreement
    write_scores(layout.agreement, KEYS, {pair: dict(a.scores) for pair, a in found.items()})
    rows = [
        (*pair, query_id, name)
        for pair, agreement in found.items()
        for query_id, name in zip(agreement.query_ids, agreement.classes, strict=True)
    ]
    names = [*KEYS, "query_id", "class"]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    with replacing(layout.classes) as beside:
        pq.write_table(
            pa.table([pa.array(column, pa.string()) for column in columns], names), beside
        )
    apart = differences(layout, pairs, sure, threads)
    write_json(layout.differences, as_json({"~".join(pair): e for pair, e in apart.items()}))
    receipt.write(layout.compare_receipt, _files(layout, pairs))


def check_compared(layout: Layout, pairs: Sequence[Pair]) -> None:
    """Hold the comparisons against the runs and scores, as they are now.

    Raises:
        EvidenceError: an arm was not compared, or something was changed since.
    """
    cure = f"Run: harness compare --dataset {layout.root.name}"
    receipt.check(layout.compare_receipt, _files(layout, pairs), cure)


def _arms(pairs: Sequence[Pair]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(arm for pair in pairs for arm in pair))


def _files(layout: Layout, pairs: Sequence[Pair]) -> Iterable[Path]:
    yield from (layout.per_query, layout.agreement, layout.classes, layout.differences)
    yield from map(layout.run, _arms(pairs))
    yield from map(layout.again, dict.fromkeys(control for control, _ in pairs))


def differences(
    layout: Layout, pairs: Sequence[Pair], sure: ScoreParams, threads: int
) -> dict[Pair, dict[str, Estimate]]:
    """Mean of candidate - control of each measure, with its interval."""
    scores = read_scores(layout.per_query, ["arm"])
    together = intents(Prepared.open(layout.data).queries())
    found: dict[Pair, dict[str, Estimate]] = {}
    for control, candidate in pairs:
        by_measure = {
            measure: Paired.of(scores[(control,)][measure], scores[(candidate,)][measure])
            for measure in scores[(control,)]
        }
        found[control, candidate] = {
            measure: summarise(
                Scores(measure, paired.query_ids, paired.difference, {}),
                confidence=sure.confidence,
                resamples=sure.resamples,
                seed=sure.seed,
                intents=together,
                threads=threads,
            )
            for measure, paired in by_measure.items()
            if len(paired.query_ids) >= FEWEST
        }
    return found


def read_agreement(layout: Layout) -> dict[Pair, Agreement]:
    """Read what ``compare`` wrote.

    Raises:
        BadFile: it did not run, or a file is no table.
    """
    try:
        table = pq.read_table(layout.classes)
    except (FileNotFoundError, pa.ArrowInvalid) as exc:
        cure = f"Run: harness compare --dataset {layout.root.name}"
        raise BadFile(layout.classes, f"no classes ({exc})", cure) from exc
    classes: dict[Pair, list[tuple[str, str]]] = {}
    for control, candidate, query_id, name in zip(
        *(table.column(at).to_pylist() for at in range(4)), strict=True
    ):
        classes.setdefault((control, candidate), []).append((query_id, name))
    scores = read_scores(layout.agreement, KEYS)
    return {
        pair: Agreement(
            tuple(query_id for query_id, _ in rows),
            tuple(name for _, name in rows),
            scores[pair],
        )
        for pair, rows in classes.items()
    }
