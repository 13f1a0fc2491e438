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
from harness.core.gate import Cause, Finding, Outcome, StepDecision
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


def premise(found: Policy, evidence: Evidence) -> Finding | None:
    said = open_premises(found, found.steps[0], evidence)
    return said[0] if said else None


def test_an_open_premise_holds_a_step_whose_gates_all_pass(tmp_path: Path) -> None:
    known = test_decide.policy(tmp_path, [False])
    (step,) = decide(known, {"step0": test_decide.moved(0.0)}, now=test_decide.NOW)
    assert step.outcome is Outcome.PROMOTE
    (step,) = decide(
        replace(known, premises=UNDECLARED), {"step0": test_decide.moved(0.0)}, now=test_decide.NOW
    )
    assert step.outcome is Outcome.HOLD
    assert [one.cause for one in step.blocking] == [Cause.PREMISE]


def test_declared_premises_hold_nothing_and_undeclared_ones_are_named(tmp_path: Path) -> None:
    assert premise(policy(tmp_path), given()) is None
    keys = ("drawn", "needs", "largest_cluster")
    for key in keys:
        found = premise(policy(tmp_path, undeclared(key)), given())
        assert found is not None
        assert found.reason.startswith(f"{key} (")
        assert f"a reason in the policy for {key}" in found.remedy
    found = premise(policy(tmp_path, undeclared(*keys)), given())
    assert found is not None
    assert all(f"{key} (" in found.reason for key in keys)


def test_a_model_or_intents_check_for_unlike_words_but_not_where_texts_do_not_count(
    tmp_path: Path,
) -> None:
    compared = given(unlike_words="a model")
    known = policy(tmp_path, undeclared("needs"))
    found = premise(known, given())
    assert found is not None
    assert "harness stage prepare --similar" in found.remedy
    assert premise(known, compared) is None
    assert premise(replace(known, clusters="none"), compared) is not None


def test_a_sample_needs_a_judge_that_the_policy_names(tmp_path: Path) -> None:
    known, sample = policy(tmp_path, undeclared("judges")), gate_sample("nDCG@10")
    assert premise(known, given()) is None
    assert (
        premise(known, given(kinds={Samples: Samples({(*sample.key[:2], "RR@10"): sample})}))
        is None
    )
    found = premise(known, given(kinds={Samples: Samples({sample.key: sample})}))
    assert found is not None
    assert found.reason.startswith("judges (")


def test_a_sample_of_a_machine_holds_the_step_whatever_is_declared(tmp_path: Path) -> None:
    known = policy(tmp_path)
    people = gate_sample("nDCG@10")
    assert premise(known, given(kinds={Samples: Samples({people.key: people})})) is None
    machine = replace(people, by="machine:rules")
    found = premise(known, given(kinds={Samples: Samples({people.key: machine})}))
    assert found is not None
    assert found.cause is Cause.PREMISE
    assert "judges: machine:rules judged, and its error is in no interval" in found.reason
    assert "a sample that people judge" in found.remedy


def gate_sample(measure: str) -> Sample:
    return Sample("fts5", "tantivy", measure, 1, 0.1, {}, "a machine")


@pytest.mark.parametrize(("starts", "open_"), [(STARTS - 4, True), (STARTS, False)])
def test_few_starts_are_declared_and_many_alike_are_a_check(
    tmp_path: Path, *, starts: int, open_: bool
) -> None:
    known = policy(tmp_path, undeclared("starts"), GATES + RACED)
    race = gate_inputs.race(1.0)
    arms = dict(zip(("fts5", "tantivy"), race.elapsed_ns.values(), strict=False))
    many = {arm: np.repeat(times[:1], starts, axis=0) for arm, times in arms.items()}
    found = premise(known, given(kinds={Race: replace(race, elapsed_ns=many)}))
    assert bool(found and found.reason.startswith("starts (")) is open_
    assert premise(policy(tmp_path, undeclared("slowest"), GATES + RACED), given()) is not None


@pytest.mark.parametrize(("size", "refuted"), [(1, False), (2, False), (12, True)])
def test_a_cluster_that_is_surely_too_large_refutes_the_key(
    tmp_path: Path, *, size: int, refuted: bool
) -> None:
    plain = given()
    clusters = dict.fromkeys(plain.control.run.query_ids[:size], "one need")
    found = premise(policy(tmp_path), replace(plain, clusters=clusters))
    assert (found is not None) is refuted
    if found:
        assert "one need has 12 of 300 queries, and largest_cluster is 0.01%" in found.reason


@pytest.fixture
def kept(tmp_path: Path) -> Policy:
    later = STEP.replace('name = "tantivy"', 'name = "later"')
    path = tmp_path / "p.toml"
    path.write_text(HEAD + STEP + GATES + later + GATES)
    return load_policy(path)


def spent(by: float, attempts: int = 1) -> Looks:
    return Looks(attempts, 0, 0, by, (), ())


def test_attempts_beyond_the_budget_hold_the_step_and_no_other(kept: Policy) -> None:
    looks = {"tantivy": spent(0.275, 11), "later": spent(0.025)}
    beyond = over_budget(kept, looks)
    (finding,) = beyond.values()
    assert "attempt 11 and 10 were planned" in finding.reason
    assert "0.275, and the budget is 0.25" in finding.reason
    assert finding.cause is Cause.BUDGET
    assert finding.timed
    first, second = decide(kept, {}, now=NOW, looks=looks)
    assert first.findings[-1] == finding
    assert finding not in second.findings


def test_a_policy_that_declares_its_attempts_counts_none(kept: Policy) -> None:
    declared = replace(kept, declared="a clone keeps no log")
    assert over_budget(declared, {"tantivy": spent(0.9, 99)}) == {}


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


def test_no_race_is_no_other_race(tmp_path: Path) -> None:
    raced = add_pin(tmp_path / "p.toml", "toy", FIRST, {"k": 50}, at=AT, by="me")
    assert raced.differences(FIRST, {}) == ()
    never = add_pin(tmp_path / "q.toml", "toy", FIRST, {}, at=AT, by="me")
    assert never.differences(FIRST, {"k": 50}) == ()


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
    path = tmp_path / "p.toml"
    path.write_text(HEAD + STEP + GATES + RACED)
    return load_policy(path)


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


def count(policy: Policy, log: list[Experiment], found: ExperimentInputs) -> tuple[int, int, int]:
    seen = looks(log, policy, policy.steps[0], found)
    return seen.attempts, seen.untimed, seen.timed


def test_the_same_evidence_judged_again_is_no_other_look(policy_looks: Policy) -> None:
    log = [line(policy_looks, inputs()), line(policy_looks, inputs(), "decide")]
    assert count(policy_looks, log, inputs()) == (1, 1, 1)
    assert (
        looks(log, policy_looks, policy_looks.steps[0], inputs(code=of_json("new"))).attempts == 1
    )


@pytest.mark.parametrize(
    ("other", "untimed", "timed", "said"),
    [
        ({"qrels": of_json("x")}, 2, 1, "other judgements"),
        ({"queries": of_json("x")}, 2, 1, "other queries"),
        ({"corpus": of_json("x")}, 2, 1, "other documents"),
        ({"runs": {**BASE["runs"], "tantivy": of_json("x")}}, 2, 1, "other runs"),
        ({"times": of_json("x")}, 1, 2, "another race"),
    ],
)
def test_other_evidence_is_another_look(
    policy_looks: Policy, other: Mapping[str, Any], untimed: int, timed: int, said: str
) -> None:
    log = [line(policy_looks, inputs())]
    assert count(policy_looks, log, inputs(**other)) == (2, untimed, timed)
    seen = looks(log, policy_looks, policy_looks.steps[0], inputs(**other))
    assert seen.since == (said,)
    assert seen.before == (("2026-03-01", "hold"),)


def test_the_run_of_an_arm_that_no_gate_looks_at_is_no_look(policy_looks: Policy) -> None:
    more = {**BASE["runs"], "dense": of_json("dense")}
    assert count(policy_looks, [line(policy_looks, inputs())], inputs(runs=more)) == (1, 1, 1)


@pytest.mark.parametrize(
    ("was", "now", "counted"),
    [("seed = 5", "seed = 6", (1, 1, 1)), ("margin = 0.1", "margin = 0.2", (2, 2, 1))],
)
def test_another_bound_on_the_same_evidence_is_an_attempt_and_another_seed_is_none(
    policy_looks: Policy, tmp_path: Path, was: str, now: str, counted: tuple[int, int, int]
) -> None:
    path = tmp_path / "other.toml"
    path.write_text((HEAD + STEP + GATES + RACED).replace(was, now))
    assert count(load_policy(path), [line(policy_looks, inputs())], inputs()) == counted


def test_looks_add_up_and_a_return_is_no_new_one(policy_looks: Policy) -> None:
    other = inputs(qrels=of_json("x"))
    log = [line(policy_looks, inputs()), line(policy_looks, other)]
    assert count(policy_looks, log, inputs(qrels=of_json("y"))) == (3, 3, 1)
    assert count(policy_looks, log, inputs()) == (2, 2, 1)


def test_races_that_no_gate_judged_count(policy_looks: Policy) -> None:
    races = [line(policy_looks, inputs(times=of_json(at)), "race") for at in ("a", "b")]
    assert count(policy_looks, races, inputs(times=of_json("b"))) == (2, 1, 2)
    seen = looks(races, policy_looks, policy_looks.steps[0], inputs(times=of_json("b")))
    assert seen.unjudged == 1
    only_control = {"fts5": of_json("fts5")}
    strange = line(policy_looks, inputs(times=of_json("c"), runs=only_control), "race")
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
        assert looks(log, policy_looks, policy_looks.steps[0], now).unjudged == unjudged
    assert told([begun, begun, ended]) == ("race that was dropped", "race")
    again = line(policy_looks, inputs(times=of_json("b")), "race resumed")
    seen = looks([begun, again, ended], policy_looks, policy_looks.steps[0], now)
    assert (seen.resumed, seen.unjudged) == (1, 0)


@pytest.mark.parametrize("name", ["toy ", "exploring"])
def test_a_look_by_another_name_of_the_policy_counts(policy_looks: Policy, name: str) -> None:
    log = [line(policy_looks, inputs(), name=name)]
    seen = looks(log, policy_looks, policy_looks.steps[0], inputs(qrels=of_json("x")))
    assert seen.attempts == 2
    assert seen.before == (("2026-03-01", f"hold (policy {name!r})"),)


def renamed(policy: Policy, *, name: str = "tantivy", candidate: str = "tantivy") -> Policy:
    return replace(policy, steps=(replace(policy.steps[0], name=name, candidate=candidate),))


def test_a_step_by_another_name_is_the_same_look(policy_looks: Policy) -> None:
    other = renamed(policy_looks, name="again")
    assert count(other, [line(policy_looks, inputs())], inputs(qrels=of_json("x"))) == (2, 2, 1)


def test_an_arm_by_another_name_is_known_by_what_it_showed(policy_looks: Policy) -> None:
    was = inputs(shown={"fts5": of_json("a"), "tantivy": of_json("b")})
    now = inputs(
        runs={"fts5": of_json("fts5"), "second": of_json("second")},
        shown={"fts5": of_json("a"), "second": of_json("b")},
    )
    other = renamed(policy_looks, candidate="second")
    seen = looks([line(policy_looks, was)], other, other.steps[0], now)
    assert seen.attempts == 2
    assert seen.before == (("2026-03-01", "hold (step tantivy, tantivy against fts5)"),)
    races = [line(policy_looks, was.model_copy(update={"times": of_json("z")}), "race")]
    assert looks(races, other, other.steps[0], now).unjudged == 1


def candidates(policy: Policy, names: Sequence[str]) -> Policy:
    (step,) = policy.steps
    steps = tuple(replace(step, name=name, candidate=name) for name in names)
    return replace(policy, steps=steps, chained=False)


def shown(*arms: str) -> ExperimentInputs:
    named = {arm: of_json(arm) for arm in ("fts5", *arms)}
    return inputs(runs=named, shown=named)


def test_every_candidate_for_the_place_of_a_control_is_an_attempt(policy_looks: Policy) -> None:
    """One after the other, and side by side in one decision."""
    log = [line(candidates(policy_looks, [arm]), shown(arm)) for arm in ("a", "b", "c")]
    assert count(candidates(policy_looks, ["d"]), log, shown("d")) == (4, 4, 4)
    many = candidates(policy_looks, "abcd")
    assert [looks([], many, step, shown(*"abcd")).attempts for step in many.steps] == [4] * 4


def test_another_control_has_a_budget_of_its_own(policy_looks: Policy) -> None:
    (step,) = policy_looks.steps
    other = replace(policy_looks, steps=(replace(step, control="dense"),))
    now = inputs(runs={"dense": of_json("dense"), "tantivy": of_json("tantivy")})
    assert count(other, [line(policy_looks, inputs())], now) == (1, 1, 1)


def test_a_control_by_another_name_is_known_by_what_it_showed(policy_looks: Policy) -> None:
    was = shown("tantivy")
    now = was.model_copy(
        update={
            "runs": {"serving": of_json("x"), "tantivy": of_json("new")},
            "shown": {"serving": of_json("fts5"), "tantivy": of_json("new")},
        }
    )
    other = replace(policy_looks, steps=(replace(policy_looks.steps[0], control="serving"),))
    assert count(other, [line(policy_looks, was)], now) == (2, 2, 2)


def test_each_attempt_costs_the_level_of_its_day(policy_looks: Policy) -> None:
    """A higher number of attempts, written later, does not buy back what was spent."""
    log = [line(policy_looks, inputs(qrels=of_json(at))) for at in range(2)]
    finer = replace(policy_looks, rules=replace(policy_looks.rules, confidence=0.99))
    seen = looks(log, finer, finer.steps[0], inputs())
    assert seen.spent == pytest.approx(2 * 0.025 + 0.005)
    assert seen.elsewhere == pytest.approx(2 * 0.025)
    again = looks([*log, line(policy_looks, inputs())], finer, finer.steps[0], inputs())
    assert again.spent == pytest.approx(3 * 0.025)


def test_queries_added_are_no_attempt_where_every_gate_holds_at_every_look(
    policy_looks: Policy, tmp_path: Path
) -> None:
    path = tmp_path / "anytime.toml"
    gates = (
        GATES.partition("[[step.gate]]")[0]
        + """[[step.gate]]
name = "Quality"
rule = "non_inferior"
measure = "nDCG@10"
margin = 0.1
looks = "anytime"
"""
    )
    path.write_text(HEAD + STEP + gates)
    anytime = load_policy(path)
    arms = {"fts5": of_json("fts5"), "tantivy": of_json("tantivy")}
    was, more = inputs(manifests=arms), inputs(manifests=arms, queries=of_json("more"))
    other = inputs(manifests={**arms, "tantivy": of_json("built anew")})
    assert count(anytime, [line(anytime, was)], more)[0] == 1
    assert count(anytime, [line(anytime, was)], other)[0] == 2
    assert count(policy_looks, [line(policy_looks, was)], more)[0] == 2


QUERIES, TRIALS = 300, 2_000
GATES_SELFTEST = [
    gate("non_inferior"),
    gate("non_inferior", slice="odd", margin=0.12),
    gate("superior", margin=0.05),
    gate("equivalent"),
]


def values(queries: int = QUERIES, spread: float = 0.1) -> Values:
    rng = np.random.default_rng(3)
    control = rng.uniform(0.3, 0.9, queries)
    candidate = np.clip(control + rng.normal(0, spread, queries), 0, 1)
    return Values(control, candidate, np.arange(queries))


def tried(*gates: Any, trials: int = 200, **given: Any) -> Any:  # noqa: ANN401  results
    policy = Policy("p", 1, 7, RULES, (step(*gates),), chained=False)
    return selftest(policy, {"s": evidence(**given)}, trials=trials)


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("truth", [-0.05, 0.05, -0.01])
def test_the_true_mean_is_the_one_that_is_asked_for(pattern: Pattern, truth: float) -> None:
    drawn = draw(pattern, values(), truth, trials=TRIALS, seed=7)
    assert drawn is not None
    means = drawn.differences.mean(axis=0)
    assert drawn.differences.shape == (QUERIES, TRIALS)
    assert means.mean() == pytest.approx(truth, abs=4 * means.std() / TRIALS**0.5)


@pytest.mark.slow
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
    (found,) = tried(gate("non_inferior"), trials=400)
    rates = {one.pattern: one.passed for one in found.planted}
    assert set(rates) == set(map(str, Pattern))
    assert all(rate.low <= 0.025 for rate in rates.values())
    assert found.fine is not None
    assert found.fine.value > 0.8
