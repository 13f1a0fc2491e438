"""What the earlier stages left, put together for a gate and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.core.clusters import BY_TEXT, Clustering
from harness.core.errors import EvidenceError
from harness.core.evidence import Agreement, ArmResult, Evidence, Race
from harness.core.scores import Scores
from harness.corpus.prepared import Prepared
from harness.corpus.runs import read_run
from harness.corpus.score_table import Key, read_scores
from harness.policy.model import Policy
from harness.stages.compare.stage import Pair, check_compared, read_agreement
from harness.stages.custody.freshness import replayed_index
from harness.stages.custody.proof import read_manifest
from harness.stages.judging.taken_in import with_samples
from harness.stages.layout import Layout
from harness.stages.load.evidence import with_load
from harness.stages.score.stage import check_scores, slices
from harness.stages.shadow.traffic import with_traffic


def sides(layout: Layout, arms: Sequence[str]) -> dict[str, ArmResult]:
    """Read every arm as it was measured.

    Raises:
        EvidenceError: an arm was not scored, or was indexed or replayed after it was.
    """
    check_scores(layout, arms)
    scores = read_scores(layout.per_query, ["arm"])
    return {arm: _side(layout, arm, scores) for arm in arms}


def _side(layout: Layout, arm: str, scores: Mapping[Key, Mapping[str, Scores]]) -> ArmResult:
    if (arm,) not in scores:
        raise EvidenceError(
            f"{layout.per_query}: the arm {arm} has no scores."
            f" Add it to arms in params.yaml, and run: harness score --dataset {layout.root.name}"
        )
    run, counted = read_run(layout.run(arm)), replayed_index(layout, arm)
    return ArmResult(arm, read_manifest(layout, arm), run, scores[arm,], counted)


def gathered(
    layout: Layout,
    pairs: Mapping[str, Pair],
    arms: Mapping[str, ArmResult],
    race: Race | None,
    how: Clustering = BY_TEXT,
) -> dict[str, Evidence]:
    """Put together the evidence of each comparison; ``pairs`` is control and candidate by name.

    ``how`` says which queries depend on each other.


    Raises:
        EvidenceError: a pair was not compared, or an arm was replayed or scored after it was.
    """
    check_compared(layout, tuple(pairs.values()))
    agreement = read_agreement(layout)
    data = Prepared.open(layout.data)
    queries, qrels, clusters = data.queries(), data.qrels(), data.clusters(how)
    found = {
        name: Evidence(
            dataset=data.manifest.name,
            control=arms[control],
            candidate=arms[candidate],
            agreement=_compared(layout, agreement, (control, candidate)),
            noise=_compared(layout, agreement, (control, control)),
            others={arm: s for arm, s in arms.items() if arm not in {control, candidate}},
            slices=slices(queries),
            clusters=clusters,
            parted=data.parted(how),
            race=race,
            qrels=qrels,
            complete=data.manifest.complete,
            unlike_words=data.unlike_words(),
        )
        for name, (control, candidate) in pairs.items()
    }
    found = with_load(layout, with_traffic(layout, found))
    return with_samples(layout, found)


def _compared(layout: Layout, found: Mapping[Pair, Agreement], pair: Pair) -> Agreement:
    if pair not in found:
        raise EvidenceError(
            f"{layout.classes}: {pair[1]} was not compared with {pair[0]}."
            f" Run: harness compare --dataset {layout.root.name}"
        )
    return found[pair]


def pairs_of(policy: Policy) -> dict[str, Pair]:
    """Control and candidate of each step."""
    return {step.name: (step.control, step.candidate) for step in policy.steps}
