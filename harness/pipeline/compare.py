"""Stage ``compare``: how alike control and candidate are, and how far apart in quality."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from harness.agreement import agree
from harness.core.engine import IMPORTED
from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.evidence import Agreement, ArmResult, Evidence
from harness.core.run import Run
from harness.core.scores import BY_TEXT, Clustering, Estimate, Paired, Scores, independent
from harness.corpus.prepared import Prepared
from harness.corpus.runs import ByQuery, Classes, Key, read_run
from harness.measures.name import span_of_difference
from harness.measures.quality import summarise
from harness.measures.ties import Spread, Ties, count_ties, tie_sensitivity
from harness.pipeline import receipts
from harness.pipeline.layout import Layout
from harness.pipeline.params import CompareParams
from harness.pipeline.receipts import read_twice
from harness.pipeline.score import FEWEST, check_scores
from harness.policy.model import Policy
from harness.stats.inference import Inference


def ties(
    data: Prepared, runs: Mapping[str, Run], measures: Sequence[str]
) -> tuple[dict[str, Ties], dict[str, object]]:
    """Count the tied hits of each arm, and compute the ends of each mean as JSON."""
    asked, qrels = [query.query_id for query in data.queries()], data.qrels()
    counted: dict[str, Ties] = {}
    written: dict[str, object] = {}
    for arm, run in runs.items():
        counted[arm] = found = count_ties(run)
        spreads = tie_sensitivity(run, qrels, measures, asked)
        written[arm] = {
            "hits": found.hits,
            "tied": found.tied,
            "tied_in_float32_only": found.only_float64,
            "measures": {
                name: {
                    "least": spread.least.mean,
                    "expected": spread.expected.mean,
                    "most": spread.most.mean,
                }
                for name, spread in spreads.items()
                if spread.most.mean is not None
            },
        }
    return counted, written


def tie_ends(
    data: Prepared, policy: Policy, evidence: Mapping[str, Evidence]
) -> tuple[dict[str, Evidence], ...]:
    """Return the evidence twice: ties of imported runs against the candidate, and for it."""
    asked, qrels = [query.query_id for query in data.queries()], data.qrels()
    spreads: dict[str, Mapping[str, Spread]] = {}
    sides = {
        side.arm: side
        for one in evidence.values()
        for side in (one.control, one.candidate, *one.others.values())
    }
    for side in sides.values():
        if side.manifest.engine == IMPORTED and count_ties(side.run).tied:
            spreads[side.arm] = tie_sensitivity(side.run, qrels, tuple(side.scores), asked)
            read = {getattr(g.settings, "measure", "") for s in policy.steps for g in s.gates}
            if missing := sorted(read.intersection(side.scores) - set(spreads[side.arm])):
                raise HarnessError(
                    f"{side.arm}: its scores tie, and {', '.join(missing)} has no bounds under"
                    " ties; judge by another measure"
                )
    if not spreads:
        return ()
    return tuple(
        {name: _at(one, spreads, best=best) for name, one in evidence.items()}
        for best in (False, True)
    )


def _at(one: Evidence, spreads: Mapping[str, Mapping[str, Spread]], *, best: bool) -> Evidence:
    def settled(side: ArmResult, *, up: bool) -> ArmResult:
        found = spreads.get(side.arm, {})
        scores = {m: spread.most if up else spread.least for m, spread in found.items()}
        return replace(side, scores={**side.scores, **scores})

    return replace(
        one,
        control=settled(one.control, up=not best),
        candidate=settled(one.candidate, up=best),
        others={arm: settled(side, up=not best) for arm, side in one.others.items()},
    )


Pair = tuple[str, str]
"""Control and candidate; an arm with itself is its first replay against its second."""
SAME = 1e-12
"""How far apart two equal intervals may be, where two processors drew them."""


def compare(
    layout: Layout,
    pairs: Sequence[Pair],
    params: CompareParams,
    inference: Inference,
    *,
    how: Clustering = BY_TEXT,
) -> None:
    """Write agreement and paired differences for each pair, and of each control with itself."""
    check_scores(layout, _arms(pairs))
    controls = dict.fromkeys((control, control) for control, _ in pairs)
    found: dict[Pair, Agreement] = {}
    for control, candidate in [*pairs, *controls]:
        runs = runs_of(layout, control, candidate)
        agreement = agree(*runs, depths=params.depths, p=params.rbo_p)
        found[control, candidate] = agreement
    scores: dict[Key, Mapping[str, Scores]] = {pair: a.scores for pair, a in found.items()}
    layout.write(Layout.agreement, scores)
    by_pair: dict[Key, ByQuery] = {
        pair: (a.query_ids, tuple(map(str, a.classes))) for pair, a in found.items()
    }
    depth = next((a.depth for a in found.values()), None)
    layout.write(Layout.classes, Classes(by_pair, depth))
    clusters = Prepared.open(layout.data).clusters(how)
    apart = differences(layout, pairs, inference, clusters)
    layout.write(Layout.differences, {"~".join(pair): e for pair, e in apart.items()})
    receipts.write(layout.compare_receipt, _files(layout, pairs))


def runs_of(layout: Layout, control: str, candidate: str) -> tuple[Run, Run]:
    """Read the two runs that are compared; of an arm and itself, those of its two replays."""
    if control == candidate:
        return read_twice(layout, control)
    return read_run(layout.run(control)), read_run(layout.run(candidate))


def check_compared(layout: Layout, pairs: Sequence[Pair]) -> None:
    """Check the comparisons against the runs and scores, as they are now."""
    hint = layout.remedy(Layout.compare_receipt)
    receipts.check(layout.compare_receipt, _files(layout, pairs), hint)


def _arms(pairs: Sequence[Pair]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(arm for pair in pairs for arm in pair))


def _files(layout: Layout, pairs: Sequence[Pair]) -> Iterable[Path]:
    yield from (layout.per_query, layout.agreement, layout.classes, layout.differences)
    yield from map(layout.run, _arms(pairs))
    yield from map(layout.again, dict.fromkeys(control for control, _ in pairs))


def differences(
    layout: Layout, pairs: Sequence[Pair], inference: Inference, clusters: Mapping[str, str]
) -> dict[Pair, dict[str, Estimate]]:
    """Mean of candidate - control of each measure, with its interval."""
    scores = layout.read(Layout.per_query)
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


def check_drawn(dataset: str, stored: Estimate | None, drawn: Estimate | None) -> None:
    """Compare the ends of a difference that is stored with those of one that was drawn now."""
    if stored and drawn and max(abs(stored.low - drawn.low), abs(stored.high - drawn.high)) > SAME:
        raise EvidenceError(
            f"{dataset}: the intervals of its differences are not those of the policy as it is now."
            f" Run: harness stage compare --dataset {dataset}"
        )


def read_agreement(layout: Layout) -> dict[Pair, Agreement]:
    """Read what ``compare`` wrote."""
    classes, scores = layout.read(Layout.classes), layout.read(Layout.agreement)
    if classes.of.keys() != scores.keys():
        problem = f"its pairs of engines are not those of {layout.classes}"
        raise BadFile(layout.agreement, problem, layout.remedy(Layout.agreement))
    return {
        (pair[0], pair[1]): Agreement(*by_query, scores[pair], depth=classes.depth)
        for pair, by_query in classes.of.items()
    }
