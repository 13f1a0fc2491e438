"""Policy files: read, refused, and applied to the arms at hand."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from harness.core.errors import BadPolicy, EvidenceError
from harness.gates.base import rules
from harness.gates.base.rules import Rules
from harness.policy import load
from harness.policy.load import Judged, as_applied, for_candidates, load_policy
from harness.policy.model import Policy, Premises
from tests.make.toy import GATES, HEAD, STEP

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
TWO = [Judged("tantivy", "fts5", "tantivy"), Judged("hybrid", "fts5", "hash-hybrid")]


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
    judged = [Judged(arm, "bm25", arm) for arm in ("a", "b")]
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
        [Judged("tantivy", "fts5", "dense")],
        [Judged("a", "fts5", "a"), Judged("b", "dense", "b")],
    ],
)
def test_a_step_that_was_left_out_or_added_is_refused(read: Policy, judged: list[Judged]) -> None:
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
