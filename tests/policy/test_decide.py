"""Decisions: outcomes, refusals, conditions of the evidence, and ties."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.core.engine import Hit, Manifest
from harness.core.errors import EvidenceError
from harness.core.evidence import ArmResult, Evidence
from harness.core.gate import OF_VERDICT, Cause, Finding, Outcome, StepDecision, Verdict
from harness.core.run import Conditions, Row, Run, Status
from harness.gates import quality
from harness.gates.base.rules import GateSettings
from harness.policy.decision import decide, exit_code, judge_over, unmet, worst
from harness.policy.load import load_policy
from harness.policy.looks import SAME, Looks
from harness.policy.model import Policy
from harness.policy.validity import check_age
from tests.make import gate_inputs
from tests.policy.tried import gate

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
HEAD = """\
[policy]
name = "toy"
version = 1
seed = 3
confidence = 0.95
resamples = 1000
power = 0.8
evidence_days = 7
attempts = 1
largest_cluster = 0.001

[policy.premises]
drawn = "made so"
needs = "made so"
judges = "made so"
starts = "made so"
slowest = "made so"
"""


def policy(
    folder: Path, taken: Sequence[bool] = (False,), *, margin: float = 0.02, attempts: int = 1
) -> Policy:
    """One step for each of ``taken``, all of old against new."""
    baseline = moved(GOOD).control.manifest.fingerprint
    steps = [
        f"""
[[step]]
name = "step{at}"
control = "old"
candidate = "new"
taken = {str(one).lower()}
baseline = "{baseline}"
[[step.gate]]
name = "Quality"
rule = "non_inferior"
measure = "nDCG@10"
margin = {margin}
min_queries = 20
[[step.gate]]
name = "Who answers"
rule = "identity"
"""
        for at, one in enumerate(taken)
    ]
    path = folder / "policy.toml"
    path.write_text(HEAD.replace("attempts = 1", f"attempts = {attempts}") + "".join(steps))
    return load_policy(path)


def moved(by: float, spread: float = 0.02, **changes: Any) -> Evidence:  # noqa: ANN401  fields of Evidence
    control = gate_inputs.levels(300)
    return gate_inputs.scored(control, gate_inputs.shifted(control, by, spread), **changes)


GOOD, BAD, OPEN = 0.0, -0.2, -0.02


def decided(folder: Path, steps: list[tuple[bool, float]]) -> tuple[StepDecision, ...]:
    """Decide steps given as taken or not, and the candidate's mean difference."""
    found = policy(folder, [taken for taken, _ in steps])
    evidence = {f"step{at}": moved(by) for at, (_, by) in enumerate(steps)}
    return decide(found, evidence, now=NOW)


def outcomes(decisions: tuple[StepDecision, ...]) -> list[Outcome]:
    return [decision.outcome for decision in decisions]


@pytest.mark.parametrize(
    ("steps", "expected", "blocked_by", "code"),
    [
        ([(False, GOOD), (False, GOOD)], "promote promote", ["", ""], 0),
        ([(False, BAD), (False, GOOD), (False, GOOD)], "hold hold hold", ["", "step0", "step0"], 1),
        ([(True, BAD), (False, GOOD)], "rollback hold", ["", "step0"], 1),
        ([(True, OPEN), (False, GOOD)], "hold promote", ["", ""], 3),
    ],
    ids=["all pass", "a fail", "a taken step fails", "a taken step is open"],
)
def test_a_step_that_fails_is_held_or_rolled_back_and_what_follows_waits(
    tmp_path: Path,
    steps: list[tuple[bool, float]],
    expected: str,
    blocked_by: list[str],
    code: int,
) -> None:
    step_decisions = decided(tmp_path, steps)
    assert [one.outcome.value for one in step_decisions] == expected.split()
    assert [one.blocked_by for one in step_decisions] == blocked_by
    assert step_decisions[1].verdict is Verdict.PASS
    assert exit_code(step_decisions) == code


def same(count: int, other: int = 0) -> Evidence:
    """Two arms with the same lists, hit for hit, but for ``other`` queries."""
    levels = gate_inputs.levels(count)
    found = gate_inputs.scored(levels, levels)
    new, apart = found.candidate, gate_inputs.run("new", gate_inputs.ids(other)).rows()
    rows = [*apart, *[*found.control.run.rows()][other:]]
    owned = [row._replace(served_by=new.manifest.fingerprint) for row in rows]
    return replace(found, candidate=replace(new, run=Run.of("new", owned)))


def of_same(
    folder: Path, evidence: Evidence, elsewhere: float = 0.0
) -> tuple[StepDecision, list[Finding]]:
    """Judge by a policy of four attempts, and find what is told of answers that are the same."""
    looks = {"step0": Looks(1, 0, 0, 0.00625, (), (), elsewhere)}
    (step,) = decide(policy(folder, attempts=4), {"step0": evidence}, now=NOW, looks=looks)
    return step, [one for one in step.findings if one.rule == SAME]


@pytest.mark.parametrize(("count", "attempts"), [(257, None), (256, 2), (227, 2), (222, 2)])
def test_the_same_answers_pass_by_two_attempts_of_the_first_candidate(
    tmp_path: Path, count: int, attempts: int | None
) -> None:
    step, told = of_same(tmp_path, same(count))
    assert step.outcome is Outcome.PROMOTE
    assert [one.p_value for one in told] == pytest.approx([0.00625 * attempts] if attempts else [])
    quality = next(one for one in step.findings if one.gate == "Quality")
    assert quality.estimate is not None
    assert quality.estimate.low > -0.02
    assert (quality.p_value or 1) <= 0.00625 * (attempts or 1)
    (unlogged,) = decide(policy(tmp_path, attempts=4), {"step0": same(count)}, now=NOW)
    assert unlogged.findings == step.findings


@pytest.mark.parametrize(
    ("evidence", "elsewhere", "more"),
    [
        (same(221), 0.0, "1 more query"),
        (same(150), 0.0, "72 more queries"),
        (same(227), 0.00625, "30 more queries"),
        (same(256), 0.0125, "1 more query"),
        (same(5), 0.0, ""),
        (same(227, other=1), 0.0, ""),
        (replace(same(227), candidate=gate_inputs.side("new", 227)), 0.0, ""),
    ],
)
def test_the_same_answers_hold_where_too_few_or_not_the_same(
    tmp_path: Path, evidence: Evidence, elsewhere: float, more: str
) -> None:
    if not evidence.candidate.scores:
        scored = replace(evidence.candidate, scores=evidence.control.scores)
        evidence = replace(evidence, candidate=scored)
    step, told = of_same(tmp_path, evidence, elsewhere)
    assert step.verdict is Verdict.INCONCLUSIVE
    assert [one.remedy for one in told] == ([f"{more} with the same answers"] if more else [])
    assert not more or step.findings[0].reason.startswith("the same answers, hit for hit, to ")


def test_near_duplicates_drawn_one_by_one_are_queries_of_their_own(tmp_path: Path) -> None:
    clusters = {f"q{at:04}": f"c{at // 5}" for at in range(60)}
    written = replace(same(227), clusters=clusters)
    (held, (told,)) = of_same(tmp_path, written)
    assert held.outcome is Outcome.HOLD
    assert told.remedy == "queries without near duplicates, with the same answers"
    (taken, (told,)) = of_same(tmp_path, replace(written, drawn=True))
    assert taken.outcome is Outcome.PROMOTE
    assert told.p_value == pytest.approx(0.0125)
    apart = replace(same(227, other=1), clusters=clusters, drawn=True)
    assert of_same(tmp_path, apart)[0].outcome is Outcome.HOLD


def test_queries_that_neither_arm_answered_are_no_same_answers(tmp_path: Path) -> None:
    evidence = same(227)
    lost = {"q0000": Status.FAILED}
    sides = []
    for side in (evidence.control, evidence.candidate):
        rows = [
            Row(row.query_id, Status.FAILED, error="gone") if row.query_id in lost else row
            for row in side.run.rows()
        ]
        scores = {name: one.only(set(one.query_ids) - {*lost}) for name, one in side.scores.items()}
        sides.append(replace(side, run=Run.of(side.arm, rows), scores=scores))
    classes = ["error", *["exact"] * 226]
    failed = replace(
        evidence, control=sides[0], candidate=sides[1],
        agreement=gate_inputs.agreement(227, "Jaccard@50", None, classes),
    )  # fmt: skip
    step, told = of_same(tmp_path, failed)
    assert (step.verdict, told) == (Verdict.INCONCLUSIVE, [])


def test_a_baseline_is_compared_in_all_of_its_digits(tmp_path: Path) -> None:
    given = policy(tmp_path)
    (step,) = given.steps
    assert step.baseline
    near = step.baseline[:11] + ("0" if step.baseline[11] != "0" else "1")
    other = replace(given, steps=(replace(step, baseline=near),))
    with pytest.raises(EvidenceError, match=near):
        decide(other, {"step0": moved(GOOD)}, now=NOW)


@pytest.mark.parametrize(
    ("codes", "found"), [([0, 1, 3], 1), ([0, 3], 3), ([3, 1], 1), ([0, 0], 0), ([], 0)]
)
def test_the_worst_of_several_data_sets_decides(codes: list[int], found: int) -> None:
    assert worst(codes) == found


def test_what_follows_a_taken_step_is_judged_against_what_that_accepted(tmp_path: Path) -> None:
    given = policy(tmp_path, [True, False])
    first, second = given.steps
    later = replace(second, control="new", candidate="old", baseline=None)
    one = moved(GOOD)
    turned = replace(one, control=one.candidate, candidate=one.control)
    chained = replace(given, steps=(first, later))
    evidence = {"step0": one, "step1": turned}
    assert len(decide(chained, evidence, now=NOW)) == 2
    anew = replace(one.candidate, manifest=replace(one.candidate.manifest, documents=7))
    with pytest.raises(EvidenceError, match=r"new \w+, but step step0 accepted"):
        decide(chained, {**evidence, "step1": replace(turned, control=anew)}, now=NOW)
    aside = replace(given, steps=(first, replace(second, candidate="newer", baseline=None)))
    with pytest.raises(EvidenceError, match="and new serves; make new its control"):
        decide(aside, {"step0": one}, now=NOW)


def test_steps_of_a_policy_that_is_not_chained_wait_for_nobody(tmp_path: Path) -> None:
    chained = policy(tmp_path, [False, False])
    evidence = {"step0": moved(BAD), "step1": moved(GOOD)}
    found = decide(replace(chained, chained=False), evidence, now=NOW)
    assert outcomes(found) == [Outcome.HOLD, Outcome.PROMOTE]
    assert chained.chained


def test_a_step_without_evidence_is_left_open_in_every_gate(tmp_path: Path) -> None:
    found = decide(policy(tmp_path, [False, False]), {"step1": moved(GOOD)}, now=NOW)
    assert [finding.verdict for finding in found[0].findings] == [Verdict.INCONCLUSIVE] * 2
    assert "evidence of new against old is missing" in found[0].findings[0].reason
    assert outcomes(found) == [Outcome.HOLD, Outcome.HOLD]
    assert exit_code(found) == exit_code(()) == 3


@pytest.mark.parametrize("which", ["control", "candidate"])
def test_evidence_about_other_arms_is_refused(tmp_path: Path, which: str) -> None:
    sound = moved(GOOD)
    wrong: Any = {which: replace(getattr(sound, which), arm="third")}
    with pytest.raises(EvidenceError, match="given third"):
        decide(policy(tmp_path), {"step0": replace(sound, **wrong)}, now=NOW)


def test_stale_times_are_refused(tmp_path: Path) -> None:
    fresh, stale = (
        moved(GOOD, race=gate_inputs.race(1.0, raced_at=f"2026-10-{day}T12:00:00+00:00"))
        for day in (27, 25)
    )
    assert outcomes(decide(policy(tmp_path), {"step0": fresh}, now=NOW)) == [Outcome.PROMOTE]
    with pytest.raises(EvidenceError, match="8 days old"):
        decide(policy(tmp_path), {"step0": stale}, now=NOW)


@pytest.mark.parametrize(
    ("made_at", "said"),
    [
        ("2026-11-02T12:00:01+00:00", "from the future"),
        ("2026-10-26T11:59:59+00:00", "measure again"),
        ("2026-11-01T12:00:00", "does not name its zone"),
        ("yesterday", "is not a time"),
    ],
)
def test_age_is_checked_to_the_second(made_at: str, said: str) -> None:
    with pytest.raises(EvidenceError, match=said):
        check_age(made_at, now=NOW, evidence_days=7)


@pytest.mark.parametrize(
    ("margin", "verdict"),
    [(0.021, Verdict.INCONCLUSIVE), (0.04, Verdict.PASS), (0.005, Verdict.FAIL)],
)
def test_the_bound_is_the_one_that_the_policy_writes(
    tmp_path: Path, margin: float, verdict: Verdict
) -> None:
    found = decide(policy(tmp_path, margin=margin), {"step0": moved(-0.02)}, now=NOW)
    finding = found[0].findings[0]
    assert (finding.verdict, finding.limit) == (verdict, -margin)
    assert f"{margin:g}" in finding.bound


def twins() -> Evidence:
    """Make the candidate be the control, under another name."""
    evidence = moved(GOOD)
    same = replace(evidence.control.manifest)  # equal, and another object
    return replace(evidence, candidate=built(evidence.candidate, same))


def built(side: ArmResult, manifest: Manifest) -> ArmResult:
    """Return the same side, served by another build."""
    rows = (row._replace(served_by=manifest.fingerprint) for row in side.run.rows())
    return replace(side, manifest=manifest, run=Run.of(side.arm, rows))


def test_one_engine_in_both_arms_is_refused_unless_declared(tmp_path: Path) -> None:
    found = policy(tmp_path)
    with pytest.raises(EvidenceError, match="old and new are the same engine"):
        decide(found, {"step0": twins()}, now=NOW)
    declared = replace(found, steps=(replace(found.steps[0], same_engine="an A/A test"),))
    assert outcomes(decide(declared, {"step0": twins()}, now=NOW)) == [Outcome.PROMOTE]


def test_a_further_arm_that_is_the_candidate_is_refused(tmp_path: Path) -> None:
    found = policy(tmp_path)
    gate = found.steps[0].gates[1]
    reads = replace(gate, settings=gate.settings.model_copy(update={"also": ("hybrid",)}))
    found = replace(found, steps=(replace(found.steps[0], gates=(reads,)),))
    evidence = moved(GOOD)
    disguised = replace(evidence.candidate, arm="hybrid")
    with pytest.raises(EvidenceError, match="new and hybrid are the same engine"):
        decide(found, {"step0": replace(evidence, others={"hybrid": disguised})}, now=NOW)


@pytest.mark.parametrize(("engine", "refused"), [("another", True), ("old", False)])
def test_two_engines_have_two_indexes_and_two_settings_may_share_one(
    tmp_path: Path, engine: str, *, refused: bool
) -> None:
    evidence = moved(GOOD)
    of = built(evidence.candidate, replace(evidence.candidate.manifest, engine=engine))
    shared = replace(of, index_sha256=evidence.control.index_sha256)
    said = pytest.raises(EvidenceError, match="have one index, byte for byte")
    with said if refused else nullcontext():
        decide(policy(tmp_path), {"step0": replace(evidence, candidate=shared)}, now=NOW)


ASKED = Conditions(k=100, time_limit_s=10.0)
QUALITY = quality.NonInferiorSettings(measure="nDCG@10", margin=0.02, min_queries=2)
FOUND = quality.NonInferiorSettings(measure="R@50", margin=0.02, min_queries=2)


def asked(side: ArmResult, conditions: Conditions | None) -> ArmResult:
    return replace(side, run=replace(side.run, conditions=conditions))


def measured(control: Conditions | None = ASKED, candidate: Conditions | None = ASKED) -> Evidence:
    plain = gate_inputs.evidence(20)
    return replace(
        plain, control=asked(plain.control, control), candidate=asked(plain.candidate, candidate)
    )


def said(settings: GateSettings, evidence: Evidence) -> str:
    found = unmet(settings, evidence)
    return f"{found.reason}. {found.remedy}" if found else ""


@pytest.mark.parametrize(
    "other", [Conditions(k=50, time_limit_s=10.0), Conditions(k=100, time_limit_s=1.0)]
)
def test_a_candidate_that_was_asked_otherwise_is_not_judged(other: Conditions) -> None:
    text = said(QUALITY, measured(candidate=other))
    assert text.startswith("the arms were not asked alike (old: 100 hits within 10 s; new: ")
    assert f"new: {other.k} hits within {other.time_limit_s:g} s" in text
    assert said(QUALITY, measured(control=other))


def test_a_further_arm_of_the_gate_must_have_been_asked_alike_too() -> None:
    floor = asked(gate_inputs.side("floor", 20), Conditions(k=10, time_limit_s=10.0))
    evidence = replace(measured(), others={"floor": floor})
    gain = quality.SuperiorSettings(measure="nDCG@10", margin=0.0, versus="floor", min_queries=2)
    assert "floor: 10 hits" in said(gain, evidence)
    assert not said(QUALITY, evidence)


def test_no_gate_looks_deeper_than_the_arms_were_asked() -> None:
    shallow = Conditions(k=20, time_limit_s=10.0)
    both = measured(shallow, shallow)
    assert not said(QUALITY, both)
    assert "returned 20 hits a query, and the gate looks at 50" in said(FOUND, both)
    silence = quality.NegativesSettings(measure="nDCG@10", depth=30, max_more=0.1, min_queries=2)
    assert "the gate looks at 30" in said(silence, both)
    release = measured(shallow)
    now = replace(release.candidate, arm=release.control.arm)
    assert "returned 20 hits" in said(FOUND, replace(release, candidate=now))


def listed(side: ArmResult, length: int, natural: int = 0) -> ArmResult:
    """Show lists of one length, but for a few that end by themselves."""
    hits = tuple(Hit(f"d{at}", 1.0, 1.0) for at in range(length))
    rows = [
        Row(query, Status.ANSWERED, hits[: natural or None] if at else hits, "me")
        for at, query in enumerate(side.run.query_ids)
    ]
    return replace(side, run=Run.of(side.arm, rows))


def test_an_imported_run_that_was_cut_short_is_not_compared_with_a_longer_one() -> None:
    plain = measured()
    cut = replace(plain, control=listed(plain.control, 10), candidate=listed(plain.candidate, 60))
    assert "the lists of old were cut at 10 hits, those of another arm go to 60" in said(FOUND, cut)
    assert not said(QUALITY, cut)
    both = replace(cut, candidate=listed(plain.candidate, 10))
    assert not said(FOUND, both)
    many = gate_inputs.evidence(100)
    ends = replace(many, control=listed(many.control, 10, 4), candidate=listed(many.candidate, 60))
    assert not said(FOUND, ends)


@pytest.mark.parametrize(
    ("rule", "now", "ends", "said"),
    [
        ("non_inferior", 0.0, (-0.01, 0.02), Verdict.PASS),
        ("non_inferior", 0.0, (-0.2, 0.02), Verdict.INCONCLUSIVE),
        ("non_inferior", -0.2, (-0.3, -0.1), Verdict.FAIL),
        ("non_inferior", -0.2, (-0.3, 0.1), Verdict.INCONCLUSIVE),
        ("equivalent", 0.0, (-0.01, 0.01), Verdict.PASS),
        ("equivalent", 0.2, (-0.3, 0.3), Verdict.INCONCLUSIVE),
        ("equivalent", 0.2, (0.1, 0.3), Verdict.FAIL),
        ("equivalent", 0.0, (-0.01, 0.2), Verdict.INCONCLUSIVE),
    ],
)
def test_one_answer_at_both_ends_or_none(
    rule: str, now: float, ends: tuple[float, float], said: Verdict
) -> None:
    asked = gate(rule, "Quality", margin=0.05, min_queries=20)
    control = gate_inputs.levels(100)
    middle, *others = (
        gate_inputs.scored(control, gate_inputs.shifted(control, by, 0.02)) for by in (now, *ends)
    )
    finding = judge_over(asked, middle, others, gate_inputs.RULES)
    alone = asked.judge(middle, gate_inputs.RULES)
    assert finding.verdict is said
    turned = said is Verdict.INCONCLUSIVE and alone.verdict is not said
    assert finding.cause is (Cause.TIES if turned else OF_VERDICT[said])
    assert alone.estimate
    assert finding.estimate
    assert finding.estimate.value == alone.estimate.value
    assert finding.estimate.low < alone.estimate.low < alone.estimate.high < finding.estimate.high
    assert "at the ends of what ties leave open" in finding.reason
    assert bool(finding.remedy) is (said is Verdict.INCONCLUSIVE)
