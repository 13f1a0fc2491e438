"""Gates of unjudged hits, and the registry of rules."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.verdict_families import losing as losing_registry
from harness.core.evidence import ArmResult, Evidence, Sample, Samples
from harness.core.gate import Cause, Finding, Verdict
from harness.core.records import Qrels
from harness.core.run import Run
from harness.core.scores import Estimate
from harness.gates.base import rules
from harness.gates.base.completions import Bound
from harness.gates.base.differences import Looks
from harness.gates.base.rules import Margin, MinQueries, above, below, within
from harness.measures import missing_judgements
from harness.measures.missing_judgements import MissingJudgements, missing
from harness.measures.quality import score
from harness.stats import sequential
from harness.stats.bounded import ValueRange, chance_above
from harness.stats.interval import interval
from tests.make import gate_inputs
from tests.make.runs import chance, qrels_of, run_of

COUNT = 400
Truth = dict[str, dict[str, int]]


def evidence(
    control: dict[str, list[str]],
    candidate: dict[str, list[str]],
    judged: Truth,
    measure: str = "nDCG@10",
    **changes: object,
) -> Evidence:
    qrels = qrels_of(judged)
    ids = tuple(control)
    found = []
    for name, lists in (("old", control), ("new", candidate)):
        one = run_of(lists, name)
        values = score(one, qrels, [measure], ids)
        found.append(ArmResult(name, gate_inputs.manifest(name), one, values))
    plain = gate_inputs.evidence(
        len(ids), control=found[0], candidate=found[1], qrels=qrels, complete=""
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def ask(of: Evidence, rule: str = "non_inferior", margin: float = 0.02, **more: object) -> Finding:
    settings: dict[str, object] = {"measure": "nDCG@10", "margin": margin} | more
    return gate_inputs.judge(rule, of, **settings)


def losing(count: int = COUNT) -> tuple[dict[str, list[str]], dict[str, list[str]], Truth, Truth]:
    """Return a candidate that shows junk where the control shows relevant hits that are not judged.

    Both show the one judged document at the same rank, and as many unjudged ones.
    """
    control, candidate, judged, truth = {}, {}, {}, {}
    for q in gate_inputs.ids(count):
        good, junk = ([f"{q}{kind}{at}" for at in range(2)] for kind in "gj")
        shared = [f"{q}s{at}" for at in range(7)]
        control[q] = [good[0], f"{q}x", good[1], *shared]
        candidate[q] = [junk[0], f"{q}x", junk[1], *shared]
        judged[q] = {f"{q}x": 1, f"{q}w": 1}
        truth[q] = judged[q] | dict.fromkeys(good, 1) | dict.fromkeys((*junk, *shared), 0)
    return control, candidate, judged, truth


def test_a_candidate_that_truly_loses_a_third_is_not_promoted() -> None:
    """As judged the two are equal, and as much is judged of the one as of the other."""
    control, candidate, judged, truth = losing()
    truly = ask(evidence(control, candidate, truth))
    assert truly.verdict is Verdict.FAIL
    assert truly.estimate is not None
    assert truly.estimate.value < -0.3
    of = evidence(control, candidate, judged)
    finding = ask(of)
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.UNJUDGED)
    assert "the verdict turns if" in finding.reason
    assert "of old's unjudged hits, weighted by rank, are relevant" in finding.reason
    assert "harness pool --dataset toy --control old --candidate new" in finding.remedy
    assert "--order sample --size" in finding.remedy
    again = ask(replace(of, candidate=replace(of.candidate, arm=of.control.arm)))
    assert again.verdict is Verdict.INCONCLUSIVE, "two releases of one arm have no pool"
    assert "harness pool" not in again.remedy
    assert again.remedy.startswith("judge ")
    assert ask(replace(of, complete="known items")).verdict is Verdict.PASS, "the card says so"


MEASURE = "RR@2"


def of_two(control: str, candidate: str) -> Evidence:
    """Show one list for all queries; ``good`` and ``bad`` are judged, ``old`` and ``new`` not."""
    ids = gate_inputs.ids(40)
    lists = [dict.fromkeys(ids, shown.split()) for shown in (control, candidate)]
    return evidence(lists[0], lists[1], {q: {"good": 1, "bad": 0} for q in ids}, MEASURE)


@pytest.mark.parametrize(
    ("control", "candidate", "rule", "verdict"),
    [
        ("good bad", "good new", "non_inferior", Verdict.PASS),
        ("bad good", "good new", "superior", Verdict.PASS),
        ("good bad", "good new", "equivalent", Verdict.PASS),
        ("good bad", "bad good", "non_inferior", Verdict.FAIL),
        ("good new", "bad good", "equivalent", Verdict.FAIL),
        ("bad good", "new good", "non_inferior", Verdict.PASS),
        ("bad good", "new good", "superior", Verdict.INCONCLUSIVE),
        ("bad good", "new good", "equivalent", Verdict.INCONCLUSIVE),
        ("old good", "new good", "non_inferior", Verdict.INCONCLUSIVE),
        ("old good", "new good", "equivalent", Verdict.INCONCLUSIVE),
        ("new good", "new bad", "superior", Verdict.FAIL),
        ("bad good", "new bad", "non_inferior", Verdict.INCONCLUSIVE),
    ],
)
def test_one_answer_over_all_completions_or_none(
    control: str, candidate: str, rule: str, verdict: Verdict
) -> None:
    finding = ask(of_two(control, candidate), rule, margin=0.1, measure=MEASURE)
    assert finding.verdict is verdict, finding.reason
    assert bool(finding.remedy) is (verdict is Verdict.INCONCLUSIVE)
    if verdict is Verdict.INCONCLUSIVE:
        assert finding.cause is Cause.UNJUDGED


def test_no_slice_passes_on_what_nobody_judged() -> None:
    of = replace(of_two("old good", "new good"), slices={"all": frozenset(gate_inputs.ids(40))})
    finding = ask(of, "no_slice_harmed", margin=0.1, measure=MEASURE)
    assert (finding.verdict, finding.cause) == (Verdict.INCONCLUSIVE, Cause.UNJUDGED)
    assert "harness pool" in finding.remedy


def alike(share: float, seed: int, count: int = COUNT) -> tuple[Evidence, Truth]:
    """Two engines that differ in two hits of half of the queries; a share of all is relevant."""
    rng = np.random.default_rng(seed)
    control, candidate, judged, truth = {}, {}, {}, {}
    for q in gate_inputs.ids(count):
        shared = [f"{q}s{at}" for at in range(8)]
        own = [[f"{q}{kind}{at}" for at in range(2)] for kind in "ab"]
        if rng.random() < 0.5:
            own[1] = own[0]
        control[q], candidate[q] = ([*shared[:3], *mine, *shared[3:]] for mine in own)
        judged[q] = {shared[0]: 1, **dict.fromkeys(shared[1:], 0)}
        hits = {*own[0], *own[1]}
        truth[q] = judged[q] | {doc: int(rng.random() < share) for doc in sorted(hits)}
    return evidence(control, candidate, judged), truth


def opened(of: Evidence) -> tuple[MissingJudgements, tuple[Run, Run], Qrels]:
    """Return what is not judged, of which runs, and what is."""
    assert of.qrels is not None
    runs = of.control.run, of.candidate.run
    return missing(*runs, of.qrels, "nDCG@10"), runs, of.qrels


def sampled(of: Evidence, truth: Truth, size: int, seed: int = 1) -> Sample:
    """Judge a sample by the truth, its relevant hits' queries whole."""
    rate = missing_judgements.rate_of(opened(of)[0], size)
    found = Sample("old", "new", "nDCG@10", seed, rate, {}, "ada")
    while left := missing_judgements.judge(*opened(of), found).left:
        grades = {q: dict(docs) for q, docs in found.grades.items()}
        for query_id, doc_id in left:
            grades.setdefault(query_id, {})[doc_id] = truth[query_id][doc_id]
        found = replace(found, grades=grades)
    return found


def with_sample(of: Evidence, sample: Sample) -> Evidence:
    return replace(of, kinds={**of.kinds, Samples: Samples({sample.key: sample})})


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [("non_inferior", Verdict.PASS), ("equivalent", Verdict.PASS), ("superior", Verdict.FAIL)],
)
def test_a_judged_sample_settles_it_in_a_sentence(rule: str, verdict: Verdict) -> None:
    """It takes as many hits as the remedy says, and with half of them it is open."""
    of, truth = alike(0.0, 1)
    before = ask(of, rule)
    assert before.verdict is Verdict.INCONCLUSIVE
    size = int(before.remedy.split()[4].replace(",", ""))
    few = ask(with_sample(of, sampled(of, truth, size // 2)), rule)
    assert few.verdict is Verdict.INCONCLUSIVE
    assert "judge a sample of" in few.remedy
    finding = ask(with_sample(of, sampled(of, truth, round(1.1 * size))), rule)
    assert finding.verdict is verdict, finding.reason
    assert finding.p_value is not None
    assert (finding.p_value < 0.025) is (verdict is Verdict.PASS)
    assert "that were drawn and judged by ada none is, so at most" in finding.reason


def test_a_sample_of_which_some_was_left_out_says_nothing() -> None:
    of, truth = alike(0.0, 1)
    whole = sampled(of, truth, 300)
    first = next(iter(whole.grades))
    short = replace(whole, grades={q: d for q, d in whole.grades.items() if q != first})
    finding = ask(with_sample(of, short))
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "of the sample that are left" in finding.remedy


def test_what_is_relevant_in_a_sample_counts() -> None:
    """A sample that finds the truth does not promote the candidate that loses."""
    control, candidate, judged, truth = losing()
    of = evidence(control, candidate, judged)
    finding = ask(with_sample(of, sampled(of, truth, 200)))
    assert finding.verdict is Verdict.FAIL, finding.reason


@pytest.mark.slow
def test_the_sample_estimates_the_mean_over_all_that_is_relevant() -> None:
    """Horvitz and Thompson's estimator has no bias, also where much of a query is relevant."""
    of, truth = alike(0.4, 2, count=60)
    open_, runs, qrels = opened(of)
    before, after = (
        [score(run, known, ["nDCG@10"], open_.query_ids)["nDCG@10"].values for run in runs]
        for known in (qrels, qrels_of(truth))
    )
    changes = []
    for seed in range(60):
        found = missing_judgements.judge(open_, runs, qrels, sampled(of, truth, 40, seed))
        assert (found.change >= found.span.least - 1e-9).all()
        assert (found.change <= found.span.most + 1e-9).all()
        changes.append(float((found.change + found.certain).mean()))
    truly = float(np.mean(after[1] - after[0] - (before[1] - before[0])))
    error = float(np.std(changes) / np.sqrt(len(changes)))
    assert abs(np.mean(changes) - truly) < 4 * error
    assert error < 0.005


def test_a_measure_without_bounds_is_open_where_a_hit_is_not_judged() -> None:
    ids = gate_inputs.ids(60)
    lists = [{q: ["good", own] for q in ids} for own in ("old", "new")]
    judged = {q: {"good": 4} for q in ids}
    finding = ask(evidence(lists[0], lists[1], judged, "ERR@10"), measure="ERR@10", margin=0.1)
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "can be sampled" in finding.remedy
    first = evidence(lists[0], lists[1], judged, "ERR@1")
    assert ask(first, measure="ERR@1", margin=0.1).verdict is Verdict.PASS


def test_sample_and_queries_share_one_error() -> None:
    """With a sample each of the two intervals has 98.75 %, so that both hold with 97.5 %."""
    of, truth = alike(0.0, 1)
    sample = sampled(of, truth, 150)
    finding = ask(with_sample(of, sample))
    found = missing_judgements.judge(*opened(of), sample)
    sure = replace(gate_inputs.RULES, confidence=0.975)
    assert finding.estimate is not None
    both = [
        interval(values, span=span, inference=sure, clusters=None).low
        for values, span in ((np.zeros(COUNT), ValueRange(-1, 1)), (found.change, found.span))
    ]
    assert finding.estimate.low == pytest.approx(sum(both))


@pytest.mark.parametrize("name", rules.names())
def test_no_number_has_a_default(name: str) -> None:
    for key, field in rules.load(name).model_fields.items():
        assert field.is_required() or field.annotation in {
            str,
            bool,
            str | None,
            type(None),
            tuple[str, ...],
            MinQueries | None,
            Mapping[str, Margin],
            Looks,
        }, key


NAN = float("nan")


@pytest.mark.parametrize(
    ("verdict", "ends"),
    [
        (above, (NAN, 9.0)),
        (above, (NAN, NAN)),
        (below, (-9.0, NAN)),
        (below, (NAN, NAN)),
        (within, (0.0, NAN)),
        (within, (NAN, 0.0)),
    ],
)
def test_nan_at_the_deciding_end_never_passes(
    verdict: Callable[[Estimate, float], Verdict], ends: tuple[float, float]
) -> None:
    assert verdict(Estimate(0.0, *ends, 5), 1.0) is Verdict.INCONCLUSIVE


def test_an_interval_that_touches_the_bound_is_on_neither_side() -> None:
    touching = Estimate(0.5, 0.0, 1.0, 5)
    assert above(touching, 0.0) is Verdict.INCONCLUSIVE
    assert below(touching, 1.0) is Verdict.INCONCLUSIVE
    assert within(Estimate(0.0, -1.0, 0.5, 5), 1.0) is Verdict.INCONCLUSIVE


SETTINGS = {
    "non_inferior": {"measure": "nDCG@10", "margin": 0.02},
    "superior": {"measure": "nDCG@10", "margin": 0.0},
}


@pytest.mark.parametrize("rule", SETTINGS)
@pytest.mark.parametrize(("by", "verdict"), [(0.05, Verdict.PASS), (-0.08, Verdict.FAIL)])
def test_the_right_and_the_wrong_side_of_the_bound(rule: str, by: float, verdict: Verdict) -> None:
    control = gate_inputs.levels(800)
    evidence = gate_inputs.scored(control, gate_inputs.shifted(control, by))
    found = gate_inputs.judge(rule, evidence, looks="anytime", **SETTINGS[rule])
    once = gate_inputs.judge(rule, evidence, **SETTINGS[rule])
    assert found.verdict is once.verdict is verdict
    assert found.bound == f"{once.bound}, at every look"
    assert found.estimate is not None
    assert once.estimate is not None
    assert found.estimate.low < once.estimate.low
    assert found.estimate.high > once.estimate.high
    assert found.p_value is not None
    assert (found.p_value <= 0.025) is (verdict is Verdict.PASS)


@pytest.mark.slow
def test_queries_added_until_it_passes_promote_falsely_as_rarely_as_it_says() -> None:
    """A look each 100 queries at a mean on the margin; a single one errs in 2.5 % of the cases."""
    span = ValueRange(-1.0, 1.0)
    values = losing_registry(np.random.default_rng(3), (600, 200), 0.4)
    once, ever = np.zeros(200, bool), np.zeros(200, bool)
    for size in range(100, 601, 100):
        once |= chance_above(values[:size], -0.02, span=span, clusters=None) < 0.025
        each = sequential.evalues_each(values[:size], span=span, confidence=0.95, clusters=None)
        ever |= np.array([one.low > -0.02 for one in each])
    assert once.mean() > 0.035, "the fault that e-values are against is not there"
    assert ever.mean() <= chance(0.025, 200)
    sure = sequential.evalues_each(values[:, :20] / 4, span=span, confidence=0.95, clusters=None)
    assert all(one.low > -0.1 for one in sure)


@pytest.mark.parametrize(
    ("bound", "low", "high", "room"),
    [
        (Bound(-0.1), 0.0, 0.2, (0.1, np.inf)),
        (Bound(-0.1), -0.3, -0.2, (np.inf, 0.1)),
        (Bound(-0.1), -0.2, 0.0, (-1.0, -1.0)),
        (Bound(0.1, both=True), -0.05, 0.04, (0.05, 0.06)),
        (Bound(0.1, both=True), 0.2, 0.3, (0.1, np.inf)),
        (Bound(0.1, both=True), -0.3, -0.2, (np.inf, 0.1)),
        (Bound(0.1, both=True), -0.3, 0.2, (-1.0, -1.0)),
    ],
)
def test_an_end_has_room_until_the_verdict_turns(
    bound: Bound, low: float, high: float, room: tuple[float, float]
) -> None:
    assert bound.room(Estimate(0.0, low, high, 10)) == pytest.approx(room)


def test_what_was_drawn_for_certain_leaves_nothing_open() -> None:
    of, truth = alike(0.3, 2, 60)
    open_, runs, qrels = opened(of)
    found = missing_judgements.judge(open_, runs, qrels, sampled(of, truth, len(open_.query)))
    assert found.span == ValueRange(0.0, 0.0)
    assert not found.change.any()
    whole = qrels_of({q: {**qrels.grades[q], **truth[q]} for q in qrels.grades})
    now = [score(run, whole, ["nDCG@10"], open_.query_ids)["nDCG@10"].values for run in runs]
    assert open_.difference + found.certain == pytest.approx(now[1] - now[0])
