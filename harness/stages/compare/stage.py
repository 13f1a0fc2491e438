"""Stage ``compare``: how alike control and candidate are, and how far apart in quality."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from sys import intern

import pyarrow as pa
import pyarrow.parquet as pq

from harness.agreement.agree import agree
from harness.core.clusters import BY_TEXT, Clustering, independent
from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import Agreement
from harness.core.files import replacing, write_json
from harness.core.run import Run
from harness.core.scores import Estimate, Paired, Scores
from harness.corpus.parquet import table_of
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.corpus.score_table import read_scores, write_scores
from harness.measures.spans import span_of_difference
from harness.measures.summary import summarise
from harness.stages.custody import receipt
from harness.stages.custody.proof import read_twice
from harness.stages.layout import Layout
from harness.stages.params import CompareParams
from harness.stages.score.means import as_json
from harness.stages.score.stage import FEWEST, check_scores
from harness.stats.inference import Inference

Pair = tuple[str, str]
"""Control and candidate; an arm with itself is its first replay against its second."""
KEYS = ("control", "candidate")
CLASSES = pa.schema([(name, pa.string()) for name in (*KEYS, "query_id", "class")])
SAME = 1e-12
"""How far apart two equal intervals may be, where two processors drew them."""
DEPTH = "depth"
"""Of RBO, the taus and the classes: the deepest of ``compare.depths``."""


def compare(
    layout: Layout,
    pairs: Sequence[Pair],
    params: CompareParams,
    inference: Inference,
    *,
    how: Clustering = BY_TEXT,
) -> None:
    """Write agreement and paired differences for each pair, and of each control with itself.

    ``how`` says which queries depend on each other. Those who judge by a policy give its word, and
    its ``inference``: a difference then has one interval, in its gate and on every page.

    Raises:
        EvidenceError: an arm was not scored, or something was changed since.
    """
    check_scores(layout, _arms(pairs))
    controls = dict.fromkeys((control, control) for control, _ in pairs)
    found: dict[Pair, Agreement] = {}
    for control, candidate in [*pairs, *controls]:
        runs = runs_of(layout, control, candidate)
        agreement = agree(*runs, depths=params.depths, p=params.rbo_p)
        found[control, candidate] = agreement
    write_scores(layout.agreement, KEYS, {pair: dict(a.scores) for pair, a in found.items()})
    schema = CLASSES.with_metadata(_noted(found.values()))
    parts = [_classes(pair, agreement, schema) for pair, agreement in found.items()]
    with replacing(layout.classes) as beside:
        pq.write_table(pa.Table.from_batches(parts, schema).combine_chunks(), beside)
    clusters = Prepared.open(layout.data).clusters(how)
    apart = differences(layout, pairs, inference, clusters)
    write_json(layout.differences, as_json({"~".join(pair): e for pair, e in apart.items()}))
    receipt.write(layout.compare_receipt, _files(layout, pairs))


def runs_of(layout: Layout, control: str, candidate: str) -> tuple[Run, Run]:
    """Read the two runs that are compared; of an arm and itself, those of its two replays."""
    if control == candidate:
        return read_twice(layout, control)
    return read_run(layout.run(control)), read_run(layout.run(candidate))


def _classes(pair: Pair, found: Agreement, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of one pair."""
    fixed = [pa.repeat(pa.scalar(arm, pa.string()), len(found.query_ids)) for arm in pair]
    return pa.record_batch([*fixed, pa.array(found.query_ids), pa.array(found.classes)], schema)


def _noted(agreements: Iterable[Agreement]) -> dict[str, str]:
    """Give the depth of the agreements, which is one for all."""
    depths = {agreement.depth for agreement in agreements if agreement.depth is not None}
    return {DEPTH: str(*depths)} if depths else {}


def check_compared(layout: Layout, pairs: Sequence[Pair]) -> None:
    """Hold the comparisons against the runs and scores, as they are now.

    Raises:
        EvidenceError: an arm was not compared, or something was changed since.
    """
    hint = f"Run: harness compare --dataset {layout.root.name}"
    receipt.check(layout.compare_receipt, _files(layout, pairs), hint)


def _arms(pairs: Sequence[Pair]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(arm for pair in pairs for arm in pair))


def _files(layout: Layout, pairs: Sequence[Pair]) -> Iterable[Path]:
    yield from (layout.per_query, layout.agreement, layout.classes, layout.differences)
    yield from map(layout.run, _arms(pairs))
    yield from map(layout.again, dict.fromkeys(control for control, _ in pairs))


def differences(
    layout: Layout,
    pairs: Sequence[Pair],
    inference: Inference,
    clusters: Mapping[str, str],
) -> dict[Pair, dict[str, Estimate]]:
    """Mean of candidate - control of each measure, with its interval."""
    scores = read_scores(layout.per_query, ["arm"])
    found: dict[Pair, dict[str, Estimate]] = {}
    for control, candidate in pairs:
        by_measure = {
            measure: difference(of_control, scores[candidate,][measure], inference, clusters)
            for measure, of_control in scores[control,].items()
        }
        found[control, candidate] = {name: one for name, one in by_measure.items() if one}
    return found


def difference(
    control: Scores, candidate: Scores, inference: Inference, clusters: Mapping[str, str]
) -> Estimate | None:
    """Mean of candidate - control with its interval; None of too few queries."""
    paired = Paired.of(control, candidate)
    if independent(paired.query_ids, clusters) < FEWEST:
        return None
    return summarise(
        Scores(control.measure, paired.query_ids, paired.difference, {}),
        span=span_of_difference(control.measure),
        inference=inference,
        clusters=clusters,
    )


def check_drawn(layout: Layout, stored: Estimate | None, drawn: Estimate | None) -> None:
    """Compare the ends of a difference that is stored with those of one that was drawn now.

    Raises:
        EvidenceError: they are others, so the policy was changed since.
    """
    if stored and drawn and max(abs(stored.low - drawn.low), abs(stored.high - drawn.high)) > SAME:
        raise EvidenceError(
            f"{layout.differences}: its intervals are not those of the policy as it is now."
            f" Run: harness compare --dataset {layout.root.name}"
        )


def read_agreement(layout: Layout) -> dict[Pair, Agreement]:
    """Read what ``compare`` wrote.

    Raises:
        BadFile: it did not run, a file is not a table, or the two are not of the same pairs.
    """
    hint = f"Run: harness compare --dataset {layout.root.name}"
    try:
        table = table_of(layout.classes, CLASSES)
    except (OSError, ValueError) as exc:
        raise BadFile(layout.classes, f"no classes ({exc})", hint) from exc
    classes: dict[Pair, tuple[list[str], list[str]]] = {}
    for control, candidate, query_id, name in zip(
        *(map(intern, table.column(name).to_pylist()) for name in CLASSES.names), strict=True
    ):
        ids, names = classes.setdefault((control, candidate), ([], []))
        ids.append(query_id)
        names.append(name)
    scores = read_scores(layout.agreement, KEYS)
    if classes.keys() != scores.keys():
        problem = f"its pairs of engines are not those of {layout.classes}"
        raise BadFile(layout.agreement, problem, hint)
    noted = (table.schema.metadata or {}).get(DEPTH.encode())
    depth = int(noted) if noted else None
    return {
        pair: Agreement(
            tuple(ids),
            tuple(names),
            scores[pair],
            depth=depth,
        )
        for pair, (ids, names) in classes.items()
    }
