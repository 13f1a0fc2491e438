"""Premises of a policy, looks, and the self-test."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.digest import of_json
from harness.core.errors import BadFile
from harness.core.evidence import Evidence, Race, Sample, Samples
from harness.core.gate import Cause, Outcome, StepDecision
from harness.core.names import Experiment, ExperimentInputs, Kind
from harness.core.records import Qrels, Query
from harness.corpus.prepared import Inventory
from harness.gates.base.differences import asked_means, compare
from harness.policy.decision import decide, open_premises, over_budget
from harness.policy.load import load_policy
from harness.policy.looks import Looks, looked, looks, told
from harness.policy.model import UNDECLARED, Policy
from harness.policy.selftest import Pattern, Values, draw, passed, selftest
from harness.policy.validity import add_pin, path_of, read_pins
from tests.make import gate_inputs
from tests.make.toy import GATES, HEAD, RACED, STEP
from tests.policy import test_decide
from tests.policy.test_decide import NOW
from tests.policy.tried import RULES, evidence, gate, judged, step

STARTS = 7
"""Processes of which all are alike: enough for a median, at the level of the policy."""


def policy(folder: Path, head: str = HEAD, gates: str = GATES) -> Policy:
    path = folder / "p.toml"
    path.write_text(head + STEP + gates)
    return load_policy(path)


def undeclared(*keys: str) -> str:
    """Return the head of a policy without these keys."""
    lines = HEAD.splitlines(keepends=True)
    return "".join(line for line in lines if line.split(" = ")[0] not in keys)


def given(**changes: Any) -> Evidence:  # noqa: ANN401  fields of Evidence
    return replace(gate_inputs.evidence(300), **changes)


def premise(found: Policy, evidence: Evidence) -> str:
    """Return the reason and the remedy of a premise that is open; nothing where none is."""
    said = open_premises(found, found.steps[0], evidence)
    return "".join(f"{one.reason} | {one.remedy}" for one in said)


def test_an_open_premise_holds_a_step_whose_gates_all_pass(tmp_path: Path) -> None:
    known = test_decide.policy(tmp_path, [False])
    evidence = {"step0": test_decide.moved(0.0)}
    (step,) = decide(known, evidence, now=NOW)
    assert step.outcome is Outcome.PROMOTE
    (step,) = decide(replace(known, premises=UNDECLARED), evidence, now=NOW)
    assert step.outcome is Outcome.HOLD
    assert [one.cause for one in step.blocking] == [Cause.PREMISE]


def test_declared_premises_hold_nothing_and_undeclared_ones_are_named(tmp_path: Path) -> None:
    assert not premise(policy(tmp_path), given())
    keys = ("drawn", "needs", "largest_cluster")
    for key in keys:
        found = premise(policy(tmp_path, undeclared(key)), given())
        assert found.startswith(f"{key} (")
        assert f"a reason in the policy for {key}" in found.partition(" | ")[2]
    found = premise(policy(tmp_path, undeclared(*keys)), given())
    assert all(f"{key} (" in found for key in keys)


def test_a_model_or_intents_check_for_unlike_words_but_not_where_texts_do_not_count(
    tmp_path: Path,
) -> None:
    compared = given(unlike_words="a model")
    known = policy(tmp_path, undeclared("needs"))
    assert "harness stage prepare --similar" in premise(known, given())
    assert not premise(known, compared)
    assert premise(replace(known, clusters="none"), compared)


def test_a_sample_needs_a_judge_that_the_policy_names(tmp_path: Path) -> None:
    known = policy(tmp_path, undeclared("judges"))
    assert not premise(known, given())
    assert not premise(known, sampled(measure="RR@10"))
    assert premise(known, sampled()).startswith("judges (")


def test_a_sample_of_a_machine_holds_the_step_whatever_is_declared(tmp_path: Path) -> None:
    known = policy(tmp_path)
    assert not premise(known, sampled())
    found = premise(known, sampled(by="machine:rules"))
    assert "judges: machine:rules judged, and its error is in no interval" in found
    assert "a sample that people judge" in found.partition(" | ")[2]


def sampled(measure: str = "nDCG@10", **changed: Any) -> Evidence:  # noqa: ANN401  fields
    sample = replace(Sample("fts5", "tantivy", "nDCG@10", 1, 0.1, {}, "a machine"), **changed)
    return given(kinds={Samples: Samples({(*sample.key[:2], measure): sample})})


@pytest.mark.parametrize(("starts", "open_"), [(STARTS - 4, True), (STARTS, False)])
def test_few_starts_are_declared_and_many_alike_are_a_check(
    tmp_path: Path, *, starts: int, open_: bool
) -> None:
    known = policy(tmp_path, undeclared("starts"), GATES + RACED)
    race = gate_inputs.race(1.0)
    arms = dict(zip(("fts5", "tantivy"), race.elapsed_ns.values(), strict=False))
    many = {arm: np.repeat(times[:1], starts, axis=0) for arm, times in arms.items()}
    found = premise(known, given(kinds={Race: replace(race, elapsed_ns=many)}))
    assert found.startswith("starts (") is open_
    assert premise(policy(tmp_path, undeclared("slowest"), GATES + RACED), given())


@pytest.mark.parametrize(("size", "refuted"), [(1, False), (2, False), (12, True)])
def test_a_cluster_that_is_surely_too_large_refutes_the_key(
    tmp_path: Path, *, size: int, refuted: bool
) -> None:
    plain = given()
    clusters = dict.fromkeys(plain.control.run.query_ids[:size], "one need")
    found = premise(policy(tmp_path), replace(plain, clusters=clusters))
    said = "one need has 12 of 300 queries, and largest_cluster is 0.01%"
    assert bool(found) is (said in found) is refuted


@pytest.fixture
def kept(tmp_path: Path) -> Policy:
    later = STEP.replace('name = "tantivy"', 'name = "later"')
    return policy(tmp_path, gates=GATES + later + GATES)


BEYOND = Looks(11, 0, 0, 0.275, (), ())


def test_attempts_beyond_the_budget_hold_the_step_and_no_other(kept: Policy) -> None:
    looks = {"tantivy": BEYOND, "later": Looks(1, 0, 0, 0.025, (), ())}
    (finding,) = over_budget(kept, looks).values()
    assert "attempt 11 and 10 were planned" in finding.reason
    assert "0.275, and the budget is 0.25" in finding.reason
    assert finding.cause is Cause.BUDGET
    assert finding.timed
    first, second = decide(kept, {}, now=NOW, looks=looks)
    assert first.findings[-1] == finding
    assert finding not in second.findings


def test_a_policy_that_declares_its_attempts_counts_none(kept: Policy) -> None:
    declared = replace(kept, declared="a clone keeps no log")
    assert over_budget(declared, {"tantivy": BEYOND}) == {}


AT = datetime(2026, 3, 1, tzinfo=UTC)
FIRST = Inventory.of([Query("a", "one")], Qrels({"a": {"d": 1}}))
SECOND = Inventory.of([Query("a", "one"), Query("b", "two")], Qrels({"a": {"d": 1}}))


def test_what_differs_from_a_pin_is_told(tmp_path: Path) -> None:
    found = add_pin(tmp_path / "p.toml", "toy", FIRST, {"k": 50}, at=AT, by="me")
    assert found == read_pins(tmp_path / "p.toml").datasets["toy"]
    assert found.differences(FIRST, {"k": 50}) == ()
    assert found.differences(SECOND, {"k": 50}) == ("1 query added (b)",)
    assert found.differences(FIRST, {"k": 20, "seed": 1}) == (
        "race k is 20, pinned 50", "race seed is 1, pinned not set",
    )  # fmt: skip
    never = add_pin(tmp_path / "q.toml", "toy", FIRST, {}, at=AT, by="me")
    assert found.differences(FIRST, {}) == never.differences(FIRST, {"k": 50}) == ()


def test_every_pin_is_kept_with_what_it_changed(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    add_pin(file, "toy", FIRST, {}, at=AT, by="me")
    add_pin(file, "other", FIRST, {}, at=AT, by="me")
    add_pin(file, "toy", SECOND, {}, at=AT + timedelta(days=1), by="you")
    found = read_pins(file).datasets
    assert found.keys() == {"toy", "other"}
    assert [(one.by, one.changes) for one in found["toy"].made] == [
        ("me", ()), ("you", ("1 query added (b)",)),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["[]", '{"format": 2, "datasets": {}}'])
def test_what_is_no_pin_is_refused(tmp_path: Path, text: str) -> None:
    path_of(tmp_path / "p.toml").write_text(text)
    with pytest.raises(BadFile, match=r"p\.pins\.json:(1:)? "):
        read_pins(tmp_path / "p.toml")
    with pytest.raises(BadFile, match=r"p\.pins\.json:(1:)? "):
        add_pin(tmp_path / "p.toml", "toy", FIRST, {}, at=AT, by="me")


BASE: Mapping[str, Any] = {
    **{name: of_json(name) for name in ("corpus", "queries", "qrels", "inventory", "code")},
    "runs": {"fts5": of_json("fts5"), "tantivy": of_json("tantivy")},
    "times": of_json("race 1"),
    "policy": of_json("policy"),
    "seeds": {"policy": 5, "race": 5},
}


def inputs(**other: object) -> ExperimentInputs:
    return ExperimentInputs(**{**BASE, **other})


@pytest.fixture
def policy_looks(tmp_path: Path) -> Policy:
    return policy(tmp_path, gates=GATES + RACED)


def line(
    policy: Policy, found: ExperimentInputs, kind: Kind = "gate", name: str = ""
) -> Experiment:
    """Log a look at the policy's one step, or a race."""
    (step,) = policy.steps
    held = StepDecision(step.name, step.control, step.candidate, taken=False, findings=())
    steps = () if kind.startswith("race") else (looked(policy, step, found, held),)
    return Experiment(
        number=1, previous="0" * 64, kind=kind, at=AT, policy=name or policy.name,
        inputs=found, steps=steps, decision=None,
    )  # fmt: skip


def seen(policy: Policy, log: list[Experiment], found: ExperimentInputs) -> Looks:
    return looks(log, policy, policy.steps[0], found)


def count(policy: Policy, log: list[Experiment], found: ExperimentInputs) -> tuple[int, int, int]:
    made = seen(policy, log, found)
    return made.attempts, made.untimed, made.timed


def shown(*arms: str) -> ExperimentInputs:
    named = {arm: of_json(arm) for arm in ("fts5", *arms)}
    return inputs(runs=named, shown=named)


X = of_json("x")
DENSE = {"dense": of_json("dense")}
RENAMED = shown("tantivy").model_copy(
    update={
        "runs": {"serving": X, "tantivy": of_json("new")},
        "shown": {"serving": of_json("fts5"), "tantivy": of_json("new")},
    }
)


@pytest.mark.parametrize(
    ("step", "was", "now", "counted"),
    [
        ({}, inputs(), inputs(), (1, 1, 1)),
        ({}, inputs(), inputs(code=X), (1, 1, 1)),
        ({}, inputs(), inputs(runs=BASE["runs"] | DENSE), (1, 1, 1)),
        ({"control": "dense"}, inputs(), inputs(runs=BASE["runs"] | DENSE), (1, 1, 1)),
        ({"name": "again"}, inputs(), inputs(qrels=X), (2, 2, 1)),
        ({"control": "serving"}, shown("tantivy"), RENAMED, (2, 2, 2)),
    ],
    ids=["nothing else", "code", "an arm of no gate", "a control", "step's name", "control's name"],
)
def test_what_is_another_look_and_what_is_not(
    policy_looks: Policy,
    step: dict[str, str],
    was: ExperimentInputs,
    now: ExperimentInputs,
    counted: tuple[int, int, int],
) -> None:
    log = [line(policy_looks, was), line(policy_looks, was, "decide")]
    named: Any = step
    other = replace(policy_looks, steps=(replace(policy_looks.steps[0], **named),))
    assert count(other, log, now) == counted


@pytest.mark.parametrize(
    ("other", "untimed", "timed", "said"),
    [
        ({"qrels": X}, 2, 1, "other judgements"),
        ({"queries": X}, 2, 1, "other queries"),
        ({"corpus": X}, 2, 1, "other documents"),
        ({"runs": {**BASE["runs"], "tantivy": X}}, 2, 1, "other runs"),
        ({"times": X}, 1, 2, "another race"),
    ],
)
def test_other_evidence_is_another_look(
    policy_looks: Policy, other: Mapping[str, Any], untimed: int, timed: int, said: str
) -> None:
    log = [line(policy_looks, inputs())]
    assert count(policy_looks, log, inputs(**other)) == (2, untimed, timed)
    found = seen(policy_looks, log, inputs(**other))
    assert (found.since, found.before) == ((said,), (("2026-03-01", "hold"),))


@pytest.mark.parametrize(
    ("was", "now", "counted"),
    [("seed = 5", "seed = 6", (1, 1, 1)), ("margin = 0.1", "margin = 0.2", (2, 2, 1))],
)
def test_another_bound_on_the_same_evidence_is_an_attempt_and_another_seed_is_none(
    policy_looks: Policy, tmp_path: Path, was: str, now: str, counted: tuple[int, int, int]
) -> None:
    other = policy(tmp_path, HEAD.replace(was, now), (GATES + RACED).replace(was, now))
    assert count(other, [line(policy_looks, inputs())], inputs()) == counted


def test_looks_add_up_and_a_return_is_no_new_one(policy_looks: Policy) -> None:
    log = [line(policy_looks, inputs()), line(policy_looks, inputs(qrels=X))]
    assert count(policy_looks, log, inputs(qrels=of_json("y"))) == (3, 3, 1)
    assert count(policy_looks, log, inputs()) == (2, 2, 1)


def test_races_that_no_gate_judged_count(policy_looks: Policy) -> None:
    races = [line(policy_looks, inputs(times=of_json(at)), "race") for at in ("a", "b")]
    assert count(policy_looks, races, inputs(times=of_json("b"))) == (2, 1, 2)
    assert seen(policy_looks, races, inputs(times=of_json("b"))).unjudged == 1
    strange = line(policy_looks, inputs(times=X, runs={"fts5": of_json("fts5")}), "race")
    assert count(policy_looks, [strange], inputs()) == (1, 1, 1)


def test_a_race_that_was_begun_and_dropped_counts(policy_looks: Policy) -> None:
    now = inputs(times=of_json("b"))
    before, ended = (line(policy_looks, inputs(times=of_json(at)), "race") for at in ("a", "b"))
    begun = line(policy_looks, inputs(times=of_json("a")), "race begun")
    for log, unjudged in (
        ([begun, ended], 0),
        ([ended, begun], 1),
        ([begun, begun, ended], 1),
        ([before, begun, begun, begun, ended], 3),
    ):
        assert seen(policy_looks, log, now).unjudged == unjudged
    assert told([begun, begun, ended]) == ("race that was dropped", "race")
    again = line(policy_looks, inputs(times=of_json("b")), "race resumed")
    found = seen(policy_looks, [begun, again, ended], now)
    assert (found.resumed, found.unjudged) == (1, 0)


@pytest.mark.parametrize("name", ["toy ", "exploring"])
def test_a_look_by_another_name_of_the_policy_counts(policy_looks: Policy, name: str) -> None:
    found = seen(policy_looks, [line(policy_looks, inputs(), name=name)], inputs(qrels=X))
    assert found.attempts == 2
    assert found.before == (("2026-03-01", f"hold (policy {name!r})"),)


def test_an_arm_by_another_name_is_known_by_what_it_showed(policy_looks: Policy) -> None:
    was = inputs(shown={"fts5": of_json("a"), "tantivy": of_json("b")})
    now = inputs(
        runs={"fts5": of_json("fts5"), "second": of_json("second")},
        shown={"fts5": of_json("a"), "second": of_json("b")},
    )
    other = replace(policy_looks, steps=(replace(policy_looks.steps[0], candidate="second"),))
    found = seen(other, [line(policy_looks, was)], now)
    assert found.attempts == 2
    assert found.before == (("2026-03-01", "hold (step tantivy, tantivy against fts5)"),)
    races = [line(policy_looks, was.model_copy(update={"times": of_json("z")}), "race")]
    assert seen(other, races, now).unjudged == 1


def candidates(policy: Policy, names: Sequence[str]) -> Policy:
    (step,) = policy.steps
    steps = tuple(replace(step, name=name, candidate=name) for name in names)
    return replace(policy, steps=steps, chained=False)


def test_every_candidate_for_the_place_of_a_control_is_an_attempt(policy_looks: Policy) -> None:
    """One after the other, and side by side in one decision."""
    log = [line(candidates(policy_looks, [arm]), shown(arm)) for arm in ("a", "b", "c")]
    assert count(candidates(policy_looks, ["d"]), log, shown("d")) == (4, 4, 4)
    many = candidates(policy_looks, "abcd")
    assert [looks([], many, step, shown(*"abcd")).attempts for step in many.steps] == [4] * 4


def test_each_attempt_costs_the_level_of_its_day(policy_looks: Policy) -> None:
    """A higher number of attempts, written later, does not buy back what was spent."""
    log = [line(policy_looks, inputs(qrels=of_json(at))) for at in range(2)]
    finer = replace(policy_looks, rules=replace(policy_looks.rules, confidence=0.99))
    found = seen(finer, log, inputs())
    assert (found.spent, found.elsewhere) == pytest.approx((2 * 0.025 + 0.005, 2 * 0.025))
    again = seen(finer, [*log, line(policy_looks, inputs())], inputs())
    assert again.spent == pytest.approx(3 * 0.025)


def test_queries_added_are_no_attempt_where_every_gate_holds_at_every_look(
    policy_looks: Policy, tmp_path: Path
) -> None:
    quality = next(one for one in GATES.split("\n\n") if "non_inferior" in one)
    anytime = policy(tmp_path, gates=f'{quality}\nlooks = "anytime"\n')
    arms = BASE["runs"]
    was, more = inputs(manifests=arms), inputs(manifests=arms, queries=X)
    other = inputs(manifests={**arms, "tantivy": X})
    assert count(anytime, [line(anytime, was)], more)[0] == 1
    assert count(anytime, [line(anytime, was)], other)[0] == 2
    assert count(policy_looks, [line(policy_looks, was)], more)[0] == 2


QUERIES, TRIALS = 300, 2_000
ODD = gate("non_inferior", slice="odd", margin=0.12)
GATES_SELFTEST = [gate("non_inferior"), ODD, gate("superior", margin=0.05), gate("equivalent")]


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("truth", [-0.05, 0.05, -0.01])
def test_the_true_mean_is_the_one_that_is_asked_for(pattern: Pattern, truth: float) -> None:
    given = evidence(QUERIES)
    control, candidate = (of.scores["nDCG@10"].values for of in (given.control, given.candidate))
    of = Values(control, candidate, np.arange(QUERIES))
    drawn = draw(pattern, of, truth, trials=TRIALS, seed=7)
    assert drawn is not None
    means = drawn.differences.mean(axis=0)
    assert drawn.differences.shape == (QUERIES, TRIALS)
    assert means.mean() == pytest.approx(truth, abs=4 * means.std() / TRIALS**0.5)


@pytest.mark.parametrize("asked", GATES_SELFTEST, ids=lambda asked: asked.name)
@pytest.mark.parametrize("given", [evidence(), evidence(clusters=3), evidence(lost=3)])
def test_each_column_is_judged_as_the_gate_judges_it(asked: Any, given: Any) -> None:  # noqa: ANN401
    (mean,) = asked_means(asked.settings, given.slices)
    compared = compare(given, mean.settings, mean.versus)
    known = np.arange(len(compared.paired.query_ids)) if compared.known is None else compared.known
    of = Values(compared.paired.control, compared.paired.candidate, known)
    truth = 2.2 * mean.limit if asked.name == "superior" else 0.4 * mean.limit
    drawn = draw(Pattern.SCATTERED, of, truth, trials=12, seed=5)
    assert drawn is not None
    ids = compared.paired.query_ids
    place = [ids.index(q) if q in ids else 0 for q in given.candidate.scores["nDCG@10"].query_ids]
    said = passed(mean, compared, drawn, RULES)
    alone = [judged(asked, given, drawn.differences[place, at], RULES.seed) for at in range(12)]
    assert said.tolist() == [verdict == "pass" for verdict in alone]


def test_a_gate_errs_rarely_under_every_pattern() -> None:
    policy = Policy("p", 1, 7, RULES, (step(gate("non_inferior")),), chained=False)
    (found,) = selftest(policy, {"s": evidence()}, trials=400)
    rates = {one.pattern: one.passed for one in found.planted}
    assert set(rates) == set(map(str, Pattern))
    assert all(rate.low <= 0.025 for rate in rates.values())
    assert found.fine is not None
    assert found.fine.value > 0.8
