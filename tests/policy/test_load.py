"""Policies are read, and those that are shipped."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

import pytest
from annotated_types import Le, Lt
from pydantic import BaseModel

from harness.core.errors import BadPolicy, EvidenceError
from harness.core.gate import StepDecision
from harness.core.scores import Estimate
from harness.gates.base import rules
from harness.gates.base.rules import GateSettings, Rules
from harness.pipeline.params import Params
from harness.policy import load
from harness.policy.load import NamedStep, as_applied, for_candidates, load_policy
from harness.policy.model import Demands, Header, Policy, Premises, StepTable
from harness.policy.plan import MOVED
from harness.shadow.alarms import AlarmBounds
from harness.shadow.settings import ComparisonSettings
from harness.stats.bounded import ValueRange
from harness.stats.sample_size import IntervalTarget, min_queries, planned_equal
from harness_engines import registry as arms
from tests.make.decisions import held_to
from tests.make.toy import GATES, HEAD, STEP, Toy
from tests.source import ROOT

POLICIES = Path(__file__).resolve().parents[2] / "policy"
MIGRATION = POLICIES / "migration.toml"
MAIL = POLICIES / "mail.toml"
MIGRATIONS = (MIGRATION, MAIL, POLICIES / "messages.toml")
GOOD = """\
[policy]
name = "toy"
version = 1
seed = 3
confidence = 0.95
resamples = 1000
power = 0.8
evidence_days = 7
attempts = 1
[[step]]
name = "first"
control = "old"
candidate = "new"
taken = false

[[step.gate]]
name = "Who answers"
rule = "identity"

[[step.gate]]
name = "Quality"
rule = "non_inferior"
measure = "nDCG@10"
margin = 0.02   # a reason
min_queries = 50

[[step]]
name = "second"
control = "new"
candidate = "newer"
taken = true
baseline = "0123456789ab"

[[step.gate]]
name = "Errors"
rule = "failure_rate"
max_share = 0.01
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_misspelt_measure_is_answered_with_the_one_that_is_meant(tmp_path: Path) -> None:
    for wrong, meant in (("nDGC@10", "nDCG@10"), ("ndcg@10", "nDCG@10")):
        with pytest.raises(BadPolicy) as said:
            load_policy(written(tmp_path, GOOD.replace('"nDCG@10"', f'"{wrong}"')))
        assert f"{wrong!r}, but no measure is named so; did you mean {meant}" in str(said.value)
        assert "Value error" not in str(said.value)
        assert said.value.line == GOOD[: GOOD.index("nDCG@10")].count("\n") + 1


def test_a_good_policy(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, GOOD))
    assert (policy.name, policy.version, policy.evidence_days) == ("toy", 1, 7)
    assert policy.rules == Rules(confidence=0.95, resamples=1_000, seed=3, power=0.8)
    assert [(s.name, s.control, s.candidate, s.taken) for s in policy.steps] == [
        ("first", "old", "new", False),
        ("second", "new", "newer", True),
    ]
    assert [gate.rule.name for gate in policy.steps[0].gates] == ["identity", "non_inferior"]
    assert [step.baseline for step in policy.steps] == [None, "0123456789ab"]
    assert policy.steps[0].gates[1].settings.limit == -0.02


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("seed = 3\n", "", 1, "has no policy.seed. Write seed = "),
        ("power = 0.8", "power = 1.0", 7, "policy.power is 1.0, but input should be less than 1"),
        ("power = 0.8", "powr = 0.8", 7, "has an unknown key policy.powr"),
        ("power = 0.8", 'power = "0.8"', 7, "policy.power is '0.8'"),
        ("resamples = 1000", "resamples = 10", 6, "greater than or equal to 1000"),
        ("confidence = 0.95", "confidence = 95", 5, "policy.confidence is 95"),
        ("confidence = 0.95", "confidence = 0.9999999", 5, "less than or equal to 0.999999"),
        ("confidence = 0.95", "confidence = nan", 5, "policy.confidence is nan"),
        ("[policy]", "[polcy]", 1, "the policy has an unknown key polcy. Its keys are policy"),
        ("margin = 0.02 ", "margn = 0.02 ", 24, "'Quality' (rule non_inferior) has an unknown"),
        (
            "margin = 0.02   # a reason\n",
            "",
            20,
            "(rule non_inferior) has no margin. Write margin = ",
        ),
        ("margin = 0.02", "margin = 0", 24, "margin is 0, but input should be greater than 0"),
        ("margin = 0.02", "margin = 0.02\nslack = 1", 25, "has an unknown key slack"),
        ("max_share = 0.01", "max_share = true", 37, "max_share is True"),
        ("min_queries = 50", "min_queries = 1", 25, "greater than or equal to 2"),
        ("min_queries = 50", "min_queries = 50.5", 25, "min_queries is 50.5"),
        ('rule = "failure_rate"', 'rule = "failures"', 36, "no rule named 'failures'; there is"),
        ('rule = "failure_rate"\n', "", 34, "a gate has no rule"),
        ('candidate = "newer"', 'candidate = "new"', 30, "compares new with itself"),
        ('name = "second"', 'name = "first"', 28, "two steps are named 'first'"),
        ('name = "Quality"', 'name = "Who answers"', 21, "two gates of first are named"),
        ("taken = true", "taken = 1", 31, "step.2.taken is 1"),
        ("taken = true", "taken = true\nbefore = 1", 32, "unknown key step.2.before"),
        ('baseline = "0123456789ab"\n', "", 31, "does not name what it was judged against"),
        ('"0123456789ab"', '"0123"', 32, "step.2.baseline is '0123'"),
        ("taken = true\n", "", 27, "has no step.2.taken"),
        ("version = 1", "version = = 1", 3, "is not TOML"),
        (
            "evidence_days = 7\n",
            "evidence_days = 7\n\n[policy.evidence]\nk = 100\nwarm = 2\n",
            12,
            "unknown key policy.evidence.warm",
        ),
    ],
)
def test_an_error_names_the_line_and_the_hint(
    tmp_path: Path, old: str, new: str, line: int | None, said: str
) -> None:
    assert GOOD.count(old) == 1
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(BadPolicy) as caught:
        load_policy(path)
    assert said in str(caught.value)
    assert caught.value.line == line
    assert str(caught.value).startswith(f"{path}:{line}: " if line else f"{path}: ")
    assert caught.value.hint


@pytest.mark.parametrize("found", ["2", "0", "'1'", "true"])
def test_another_format_is_refused_before_its_keys(tmp_path: Path, found: str) -> None:
    text = GOOD.replace("version = 1", f"version = 1\nformat = {found}\nlater = 3")
    with pytest.raises(BadPolicy, match=r"policy\.toml:4: its format is .* reads format 1\. Use"):
        load_policy(written(tmp_path, text))
    assert load_policy(written(tmp_path, GOOD.replace("seed = 3", "seed = 3\nformat = 1")))


def test_clusters_may_not_hide_a_margin_from_any_number_of_queries(tmp_path: Path) -> None:
    text = GOOD.replace("seed = 3", "seed = 3\nlargest_cluster = 0.005")
    assert load_policy(written(tmp_path, text)).rules.largest_cluster == 0.005
    says = r"toml:5: gate 'Quality' has a margin of 0.02, and clusters of 1.00% may hide a loss of"
    with pytest.raises(BadPolicy, match=rf"{says} 0.0356 from .* below 0.00516, or raise"):
        load_policy(written(tmp_path, text.replace("0.005", "0.01")))


def test_queries_depend_on_each_other_by_their_texts_unless_said_otherwise(tmp_path: Path) -> None:
    assert load_policy(written(tmp_path, GOOD)).clusters == "near-duplicates"


def test_an_unknown_rule_lists_the_rules(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace('"failure_rate"', '"failures"'))
    with pytest.raises(BadPolicy) as caught:
        load_policy(path)
    assert all(name in str(caught.value) for name in rules.names())


def test_a_misspelt_key_lists_the_keys_of_its_rule(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace("max_share = 0.01", "max_share = 0.01\nmin = 3"))
    with pytest.raises(BadPolicy, match="Its keys are max_share"):
        load_policy(path)


def test_a_step_without_gates_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD[: GOOD.rindex("[[step.gate]]")])
    with pytest.raises(BadPolicy, match="a step without gates decides nothing") as caught:
        load_policy(path)
    assert caught.value.line == 27


def test_a_missing_file_is_a_bad_policy(tmp_path: Path) -> None:
    with pytest.raises(BadPolicy, match="cannot be read"):
        load_policy(tmp_path / "none.toml")


def test_lines_of_tables_and_keys() -> None:
    found = load.find(GOOD)
    rows = GOOD.splitlines()
    assert rows[found["step", 1, "gate", 0] - 1] == "[[step.gate]]"
    assert rows[found["step", 0, "gate", 1, "margin"] - 1].startswith("margin")
    assert rows[found["policy", "seed"] - 1] == "seed = 3"
    assert load.nearest(found, ("step", 0, "gate", 1, "nothing")) == 20
    assert load.nearest(found, ("nowhere",)) is None


def test_the_migration_has_its_steps_and_arms() -> None:
    policy = load_policy(MIGRATION)
    assert [(step.name, step.control, step.candidate) for step in policy.steps] == [
        ("shadow", "fts5", "tantivy"),
        ("tantivy", "fts5", "tantivy"),
        ("hybrid", "tantivy", "hybrid"),
    ]
    assert not any(step.taken for step in policy.steps)


@pytest.mark.parametrize("path", MIGRATIONS[1:], ids=lambda path: path.stem)
def test_the_migration_of_message_search_goes_four_steps(path: Path) -> None:
    policy = load_policy(path)
    assert [(step.name, step.control, step.candidate) for step in policy.steps] == [
        ("shadow", "mail-fts5", "mail-tantivy"),
        ("tantivy", "mail-fts5", "mail-tantivy"),
        ("hybrid", "mail-tantivy", "mail-hybrid"),
        ("rerank", "mail-hybrid", "mail-rerank"),
    ]


def test_a_policy_names_every_arm_that_it_looks_at() -> None:
    assert load_policy(MIGRATION).arms == ("fts5", "tantivy", "hybrid", "hash-hybrid")
    assert load_policy(MAIL).arms == (
        "mail-fts5", "mail-tantivy", "mail-hybrid", "mail-hash", "mail-rerank",
    )  # fmt: skip


def test_a_policy_names_every_measure_of_quality_that_it_reads() -> None:
    assert load_policy(MIGRATION).measures == ("nDCG@10", "RR@10", "R@50")


def test_each_attempt_has_its_part_of_the_error_budget(tmp_path: Path) -> None:
    text = MIGRATION.read_text(encoding="utf-8")
    found = load_policy(written(tmp_path, text))
    assert found.attempts == 4
    assert found.rules.confidence == pytest.approx(0.9875)
    assert found.level == pytest.approx(0.00625)
    assert found.alpha == pytest.approx(0.025)


def test_steps_wait_for_each_other_unless_the_policy_says_no(tmp_path: Path) -> None:
    assert load_policy(MIGRATION).chained
    text = MIGRATION.read_text(encoding="utf-8")
    free = load_policy(
        written(tmp_path, text.replace("evidence_days =", "chained = false\nevidence_days =", 1))
    )
    assert not free.chained


@pytest.mark.parametrize("path", MIGRATIONS, ids=lambda path: path.stem)
def test_every_step_of_a_migration_checks_identity_and_failures(path: Path) -> None:
    for step in load_policy(path).steps:
        assert {"identity", "failure_rate"} <= {gate.rule.name for gate in step.gates}


@pytest.mark.parametrize("path", MIGRATIONS, ids=lambda path: path.stem)
def test_every_bound_of_a_migration_has_its_reason(path: Path) -> None:
    for row in path.read_text(encoding="utf-8").splitlines():
        key, _, value = row.partition(" = ")
        if value and key not in {
            *("name", "version", "seed", "control", "candidate", "taken"),
            *("rule", "measure", "slice", "slices", "versus", "also", "percent"),
            *Premises.model_fields,
        }:
            assert "  # " in value, row


@pytest.mark.parametrize("path", MIGRATIONS, ids=lambda path: path.stem)
def test_no_gate_is_looser_than_a_migration_says(path: Path) -> None:
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    policy = load_policy(path)
    for table, step in zip(raw["step"], policy.steps, strict=True):
        for written_gate, gate in zip(table["gate"], step.gates, strict=True):
            said = {k: v for k, v in written_gate.items() if k not in {"name", "rule"}}
            assert (
                gate.settings.model_dump(exclude_none=True, exclude_defaults=True, mode="json")
                == said
            )
            assert (gate.name, gate.rule.name) == (written_gate["name"], written_gate["rule"])


LATER = STEP.replace('name = "tantivy"', 'name = "hybrid"').replace('"tantivy"', '"hash-hybrid"')
TWO = [NamedStep("tantivy", "fts5", "tantivy"), NamedStep("hybrid", "fts5", "hash-hybrid")]


@pytest.fixture
def read(tmp_path: Path) -> Policy:
    path = tmp_path / "two.toml"
    path.write_text(HEAD + STEP + GATES + LATER + GATES)
    return load_policy(path)


def test_the_first_steps_of_a_policy(read: Policy) -> None:
    assert as_applied(read, TWO) == read
    assert as_applied(read, TWO[:1]) == read.until("tantivy")


def test_one_step_for_every_candidate(read: Policy) -> None:
    template = read.until("tantivy")
    judged = [NamedStep(arm, "bm25", arm) for arm in ("a", "b")]
    found = as_applied(template, judged)
    assert [(s.name, s.control, s.candidate) for s in found.steps] == [*map(tuple, judged)]
    assert not found.chained


@pytest.mark.parametrize(
    "judged",
    [
        [],
        TWO[1:],
        [TWO[0]._replace(control="tantivy")],
        [*TWO, TWO[0]],
        [NamedStep("tantivy", "fts5", "dense")],
        [NamedStep("a", "fts5", "a"), NamedStep("b", "dense", "b")],
    ],
)
def test_a_step_that_was_left_out_or_added_is_refused(
    read: Policy, judged: list[NamedStep]
) -> None:
    with pytest.raises(EvidenceError, match="were judged, and the policy toy migration has"):
        as_applied(read, judged)


FOLDER = Path(__file__).resolve().parents[2] / "policy"


@pytest.fixture
def template() -> Policy:
    return load_policy(FOLDER / "pairwise.toml")


def test_each_candidate_is_judged_by_the_same_gates(template: Policy) -> None:
    policy = for_candidates(template, "old", ["new", "newer"])
    assert [(s.name, s.control, s.candidate) for s in policy.steps] == [
        ("new", "old", "new"),
        ("newer", "old", "newer"),
    ]
    assert {step.gates for step in policy.steps} == {template.steps[0].gates}
    assert policy.rules == template.rules


def test_no_candidate_waits_for_another(template: Policy) -> None:
    assert template.chained
    assert not for_candidates(template, "old", ["new"]).chained


def test_a_migration_is_no_template() -> None:
    migration = load_policy(FOLDER / "migration.toml")
    with pytest.raises(EvidenceError, match=rf"has {len(migration.steps)} steps"):
        for_candidates(migration, "old", ["new"])


def test_somebody_must_be_compared(template: Policy) -> None:
    with pytest.raises(EvidenceError, match="no arm is compared with old"):
        for_candidates(template, "old", [])


POLICIES_SHIPPED = sorted(
    path for path in (ROOT / "policy").glob("*.toml") if "[[step]]" in path.read_text("utf-8")
)
TEMPLATE = {"control", "candidate", "then", "now"}
"""How policies for arms of the command line call them."""
BOUNDS = ("margin", "max_", "min_share", "floor", "evidence_days", "largest_")


@pytest.mark.parametrize("path", POLICIES_SHIPPED, ids=lambda path: path.name)
def test_a_policy_can_be_read_and_its_arms_exist(path: Path) -> None:
    named = set(load_policy(path).arms) - TEMPLATE
    assert named <= set(arms.names())


@pytest.mark.parametrize("path", POLICIES_SHIPPED, ids=lambda path: path.name)
def test_gates_on_means_say_how_large_a_cluster_may_be(path: Path) -> None:
    policy = load_policy(path)
    assert not policy.measures or 0 < policy.rules.largest_cluster < 0.005


def counts(policy: Policy) -> list[int]:
    """Count what a margin of 0.02 costs by the policy's own error budget and clusters."""
    rules, bound, span = policy.rules, -0.02, ValueRange(-1.0, 1.0)
    each = [
        planned_equal(
            moved, IntervalTarget(0.0, bound), span=span, confidence=rules.confidence,
            power=rules.power, largest=rules.largest_cluster,
        )
        for moved in MOVED
    ]  # fmt: skip
    least = min_queries(0.0, bound, span=span, level=policy.level, largest=rules.largest_cluster)
    return [least, *(count or 0 for count in each)]


def costs(policy: Policy) -> list[str]:
    """Say in the comment of a policy what a margin of 0.02 costs."""
    least, few, some, many, _ = counts(policy)
    said = (
        "# A margin says how many queries it takes, so none is asked for beside it (harness plan)."
        f" An equal candidate needs about {many:,} judged\n# queries at 0.02 where 30 % of them"
        f" move by half, {some:,} where 10 % do, {few:,} where 2 % do. None passes with fewer than"
        f" {least:,}."
    )
    return said.splitlines()


@pytest.mark.parametrize("name", ["regress", "migration"])
def test_the_page_says_what_a_verdict_costs(name: str) -> None:
    page = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    each = counts(load_policy(ROOT / "policy" / f"{name}.toml"))
    assert f"(`policy/{name}.toml`) | " + " | ".join(f"{one:,}" for one in each) + " |" in page


@pytest.mark.parametrize("path", POLICIES_SHIPPED, ids=lambda path: path.name)
def test_a_policy_with_margins_says_what_they_cost(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    said = "\n".join(costs(load_policy(path)))
    assert (said in text) is ("\nmargin = " in text), said


@pytest.mark.parametrize("path", POLICIES_SHIPPED, ids=lambda path: path.name)
def test_a_bound_has_its_reason_beside_it(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    bare = [line for line in lines if line.startswith(BOUNDS) and "#" not in line]
    assert bare == [], f"{path.name}: say why beside each bound"


@pytest.mark.slow
def test_what_a_project_decides_is_held(project: Toy) -> None:
    policy, decision = project.project.policy(), project.decide()
    held_to(policy, [decision])
    for spoilt in (
        replace(decision, findings=decision.findings[1:]),
        replace(decision, control="x"),
        _passing(decision, Estimate(-0.25, -0.3, -0.2, 41)),
        _passing(decision, Estimate(0.05, 0.0, 0.1, 19)),
    ):
        with pytest.raises(EvidenceError):
            held_to(policy, [spoilt])


def _passing(decision: StepDecision, estimate: Estimate) -> StepDecision:
    """Let the gate on quality pass by another interval."""
    return replace(
        decision,
        findings=tuple(
            replace(one, estimate=estimate) if one.gate == "Quality" else one
            for one in decision.findings
        ),
    )


def test_every_rule_with_a_limit_says_on_which_side_it_passes() -> None:
    settings = {name: rules.load(name).settings for name in rules.names()}
    limited = {
        name for name, of in settings.items() if {"limit", "bounded_by"} & written_shipped(of)
    }
    silent = {name for name in limited if "passes" not in written_shipped(settings[name])}
    assert silent == set()
    assert len(limited) > 10


def written_shipped(settings: type[GateSettings]) -> set[str]:
    """Name what a rule writes itself, or takes from what rules of its kind share."""
    own = [of for of in settings.__mro__ if issubclass(of, GateSettings) and of is not GateSettings]
    return {name for of in own for name in vars(of)}


LABELS = {"seed", "version", "format"}
"""Numbers that only name something."""


def numbers(model: type[BaseModel], within: str = "") -> Iterator[tuple[str, bool]]:
    """Yield each number of a model and its tables, and whether it is bounded above."""
    for name, field in model.model_fields.items():
        place = f"{within}{name}"
        for kind, marks in kinds(field.annotation, field.metadata):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from numbers(kind, f"{place}.")
            elif kind in {int, float} and name not in LABELS:
                yield place, any(isinstance(mark, Le | Lt) for mark in marks)


def kinds(annotation: Any, marks: list[Any]) -> Iterator[tuple[Any, list[Any]]]:  # noqa: ANN401  a type
    """Take unions, tuples and annotations apart."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        more = [one for mark in more for one in getattr(mark, "metadata", [mark])]
        yield from kinds(inner, [*marks, *more])
    elif get_args(annotation) or isinstance(annotation, UnionType):
        for one in get_args(annotation):
            yield from kinds(one, marks)
    else:
        yield annotation, marks


MODELS: dict[str, Any] = {
    "policy": Header,
    "step": StepTable,
    "demands": Demands,
    "params": Params,
    "shadow": ComparisonSettings,
    "watch": AlarmBounds,
    **{name: rules.load(name).settings for name in rules.names()},
}


@pytest.mark.parametrize("name", MODELS)
def test_every_number_is_bounded_above(name: str) -> None:
    assert [place for place, bounded in numbers(MODELS[name]) if not bounded] == []


def test_a_number_without_an_end_is_seen() -> None:
    class Open(BaseModel):
        width: float
        depth: Annotated[int, Le(5)] | None = None

    assert dict(numbers(Open)) == {"width": False, "depth": True}
