"""Policies are read, and those that are shipped."""

import tomllib
from pathlib import Path

import pytest

from harness.core.errors import BadPolicy, EvidenceError
from harness.gates.base.rules import Rules
from harness.policy.load import NamedStep, as_applied, load_policy
from harness.policy.model import Policy
from harness.policy.plan import MOVED
from harness.stats.bounded import ValueRange
from harness.stats.sample_size import IntervalTarget, min_queries, planned_equal
from harness_engines import registry as arms
from tests.make.toy import GATES, HEAD, STEP
from tests.source import ROOT

MIGRATIONS = [ROOT / "policy" / f"{name}.toml" for name in ("migration", "mail", "messages")]
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


def test_a_good_policy(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, GOOD))
    assert (policy.name, policy.version, policy.evidence_days) == ("toy", 1, 7)
    assert policy.rules == Rules(confidence=0.95, resamples=1_000, seed=3, power=0.8)
    assert [(s.name, s.control, s.candidate, s.taken) for s in policy.steps] == [
        ("first", "old", "new", False),
        ("second", "new", "newer", True),
    ]
    assert [gate.rule for gate in policy.steps[0].gates] == ["identity", "non_inferior"]
    assert [step.baseline for step in policy.steps] == [None, "0123456789ab"]
    assert policy.steps[0].gates[1].settings.limit == -0.02


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("seed = 3\n", "", 1, "has no policy.seed. Write seed = "),
        ("power = 0.8", "power = 1.0", 7, "policy.power is 1.0, but input should be less than 1"),
        ("power = 0.8", "powr = 0.8", 7, "has an unknown key policy.powr"),
        ("resamples = 1000", "resamples = 10", 6, "greater than or equal to 1000"),
        ("confidence = 0.95", "confidence = nan", 5, "policy.confidence is nan"),
        ("margin = 0.02 ", "margn = 0.02 ", 24, "'Quality' (rule non_inferior) has an unknown"),
        ("margin = 0.02", "margin = 0", 24, "margin is 0, but input should be greater than 0"),
        ("min_queries = 50", "min_queries = 1", 25, "greater than or equal to 2"),
        ('rule = "failure_rate"', 'rule = "failures"', 36, "no rule named 'failures'; there is"),
        ('rule = "failure_rate"\n', "", 34, "a gate has no rule"),
        ('candidate = "newer"', 'candidate = "new"', 30, "compares new with itself"),
        ('name = "second"', 'name = "first"', 28, "two steps are named 'first'"),
        ('baseline = "0123456789ab"\n', "", 31, "does not name what it was judged against"),
        ("version = 1", "version = = 1", 3, "is not TOML"),
        (GOOD[GOOD.rindex("[[step.gate]]") :], "", 27, "a step without gates decides nothing"),
    ],
)
def test_an_error_names_the_line_and_the_hint(
    tmp_path: Path, old: str, new: str, line: int, said: str
) -> None:
    assert GOOD.count(old) == 1
    path = written(tmp_path, GOOD.replace(old, new))
    with pytest.raises(BadPolicy) as caught:
        load_policy(path)
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert caught.value.hint


def test_clusters_may_not_hide_a_margin_from_any_number_of_queries(tmp_path: Path) -> None:
    text = GOOD.replace("seed = 3", "seed = 3\nlargest_cluster = 0.005")
    assert load_policy(written(tmp_path, text)).rules.largest_cluster == 0.005
    says = r"toml:5: gate 'Quality' has a margin of 0.02, and clusters of 1.00% may hide a loss of"
    with pytest.raises(BadPolicy, match=rf"{says} 0.0356 from .* below 0.00516, or raise"):
        load_policy(written(tmp_path, text.replace("0.005", "0.01")))


def test_each_attempt_has_its_part_of_the_error_budget() -> None:
    found = load_policy(MIGRATIONS[0])
    assert found.attempts == 4
    assert found.rules.confidence == pytest.approx(0.9875)
    assert found.level == pytest.approx(0.00625)
    assert found.alpha == pytest.approx(0.025)


@pytest.mark.parametrize("path", MIGRATIONS, ids=lambda path: path.stem)
def test_no_gate_is_looser_than_a_migration_says(path: Path) -> None:
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    policy = load_policy(path)
    for table, step in zip(raw["step"], policy.steps, strict=True):
        for written_gate, gate in zip(table["gate"], step.gates, strict=True):
            read = gate.settings.model_dump(exclude_none=True, exclude_defaults=True, mode="json")
            assert {"name": gate.name, "rule": gate.rule, **read} == written_gate


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
    "steps",
    [
        [],
        TWO[1:],
        [TWO[0]._replace(control="tantivy")],
        [*TWO, TWO[0]],
        [NamedStep("tantivy", "fts5", "dense")],
        [NamedStep("a", "fts5", "a"), NamedStep("b", "dense", "b")],
    ],
)
def test_a_step_that_was_left_out_or_added_is_refused(read: Policy, steps: list[NamedStep]) -> None:
    with pytest.raises(EvidenceError, match="were judged, and the policy toy migration has"):
        as_applied(read, steps)


POLICIES_SHIPPED = sorted(
    path for path in (ROOT / "policy").glob("*.toml") if "[[step]]" in path.read_text("utf-8")
)
TEMPLATE = {"control", "candidate", "then", "now"}
"""How policies for arms of the command line call them."""
BOUNDS = ("margin", "max_", "min_share", "floor", "evidence_days", "largest_")


@pytest.mark.parametrize("path", POLICIES_SHIPPED, ids=lambda path: path.name)
def test_a_shipped_policy_has_arms_that_exist_and_a_reason_beside_each_bound(path: Path) -> None:
    assert set(load_policy(path).arms) - TEMPLATE <= set(arms.names())
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith(BOUNDS) and "#" not in line] == []


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


@pytest.mark.parametrize("name", ["regress", "migration"])
def test_the_page_says_what_a_verdict_costs(name: str) -> None:
    page = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    each = counts(load_policy(ROOT / "policy" / f"{name}.toml"))
    assert f"(`policy/{name}.toml`) | " + " | ".join(f"{one:,}" for one in each) + " |" in page
