"""A registration is written once, and what differs from it is named, key by key."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.core.errors import BadFile
from harness.core.qrels import Qrels
from harness.core.records import Query
from harness.corpus.inventory import Inventory
from harness.policy.load import load_policy
from harness.policy.model import Policy
from harness.policy.plan.at_hand import AtHand, Raced
from harness.policy.plan.departures import departures, departures_today
from harness.policy.plan.plan import plan
from harness.policy.plan.registration import (
    Registration,
    cited,
    common,
    path_of,
    read,
    registered_steps,
    write,
)
from tests.policy.tried import RULES, gate, step

AT = datetime(2026, 3, 1, tzinfo=UTC)
IDS = tuple(f"q{at:03}" for at in range(200))
QUERIES = [Query(q, f"text {q}") for q in IDS]
QRELS = Qrels({q: {"d": 1} for q in IDS})
STOCK = Inventory.of(QUERIES, QRELS)
RACE = gate("latency_ratio", percent="p95", max_ratio=2.0, max_noise=1.5, max_stolen=0.1)
GATES = (gate("non_inferior", margin=0.05), RACE)
POLICY = Policy("p", 1, 1, RULES, (step(*GATES),), chained=False)


def at_hand(queries: int = 200) -> AtHand:
    kept = IDS[:queries]
    return AtHand.of(kept, Qrels({q: {"d": 1} for q in kept}), {}, {}, None)


def registered(policy: Policy = POLICY, **other: object) -> Registration:
    made = {
        "at": AT,
        "by": "me",
        "policy": policy.name,
        "policy_sha256": "0" * 64,
        "code": "0" * 64,
        "rules": common(policy),
        "dataset": "toy",
        "inventory": STOCK,
        "looked": {},
        "steps": registered_steps(plan(policy, at_hand(), {})),
    }
    return Registration.model_validate(made | other)


def differs(policy: Policy, queries: int = 200, inventory: Inventory = STOCK) -> tuple[str, ...]:
    return departures(registered(), policy, at_hand(queries), "toy", inventory)


def test_it_is_written_once(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    write(file, registered())
    kept = file.read_bytes()
    with pytest.raises(BadFile, match=r"plan\.json:(1:)? is there already, and is not overwritten"):
        write(file, registered(by="you"))
    assert file.read_bytes() == kept
    assert read(file) == registered()
    with pytest.raises(BadFile, match=r"cannot be written"):
        write(tmp_path / "none" / "plan.json", registered())


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2}'])
def test_what_is_no_registration_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(BadFile, match=r"plan\.json:(1:)? .*never written anew"):
        read(file)


def test_nothing_differs_from_what_was_registered() -> None:
    assert differs(POLICY) == ()
    assert departures_today(registered(), Raced(3, 86), {"s": 1}) == ()
    assert departures_today(registered(), None, {}) == ()


def moved(*gates: object) -> Policy:
    return replace(POLICY, steps=(step(*gates),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (
            moved(gate("non_inferior", margin=0.1), RACE),
            "gate 'non_inferior' of step s: margin is 0.1, registered 0.05",
        ),
        (
            moved(gate("non_inferior", margin=0.05, slice="short"), RACE),
            "gate 'non_inferior' of step s: slice is short, registered None",
        ),
        (moved(RACE), "gate 'non_inferior' of step s was registered and is gone"),
        (moved(*GATES, gate("identity")), "gate 'identity' of step s was not registered"),
        (
            moved(gate("equivalent", "non_inferior", margin=0.05), RACE),
            "gate 'non_inferior' of step s: rule is equivalent, registered non_inferior",
        ),
        (
            replace(POLICY, rules=replace(RULES, confidence=0.9)),
            "confidence is 0.9, registered 0.95",
        ),
        (replace(POLICY, rules=replace(RULES, seed=8)), "seed is 8, registered 7"),
        (replace(POLICY, clusters="none"), "clusters is none, registered near-duplicates"),
        (
            replace(POLICY, steps=(replace(POLICY.steps[0], candidate="other"),)),
            "step s compares other with old, registered new with old",
        ),
    ],
)
def test_each_change_of_a_policy_is_named(policy: Policy, says: str) -> None:
    assert says in differs(policy)


def test_steps_that_come_or_go_are_named() -> None:
    other = replace(POLICY, steps=(replace(POLICY.steps[0], name="t"),))
    assert differs(other) == ("step s was registered and is gone", "step t was not registered")


def test_fewer_queries_than_planned_are_named() -> None:
    assert differs(POLICY, queries=74) == ()
    assert differs(POLICY, queries=72) == (
        "gate 'non_inferior' of step s has 72 queries, planned 74",
    )


def test_other_data_are_named_and_new_judgements_are_as_planned() -> None:
    assert departures(registered(), POLICY, at_hand(), "other", STOCK) == (
        "the data set is other, registered toy",
    )
    graded = {q: {"d": 1} for q in IDS}
    more = Inventory.of([*QUERIES, Query("x", "new")], Qrels(graded | {"x": {"d": 1}}))
    assert differs(POLICY, inventory=more) == ()
    other = Inventory.of(QUERIES[1:], Qrels(graded | {"q001": {"d": 2}}))
    assert differs(POLICY, inventory=other) == (
        "1 query removed (q000)",
        "1 query with other judgements (q001)",
    )
    trimmed = Inventory.of(QUERIES, Qrels({q: graded[q] for q in IDS[5:]}))
    (said,) = differs(POLICY, inventory=trimmed)
    assert said.startswith("5 queries without judgements that had some (q000, q001, q002, ...)")


def test_a_smaller_race_and_more_looks_are_named() -> None:
    assert departures_today(registered(), Raced(2, 71), {"s": 2}) == (
        "71 queries were raced, planned 86",
        "the race had 2 processes, planned 3",
        "step s was looked at 2 times, planned 1",
    )
    assert departures_today(registered(looked={"s": 1}), None, {"s": 2}) == ()
    of_candidates = departures_today(registered(), None, {"bm25": 1, "dense": 3})
    assert of_candidates == ("step dense was looked at 3 times, planned 1",)


def test_the_one_that_is_named_is_cited_and_else_the_one_beside(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    assert cited(POLICY, file, "toy") is None
    write(path_of(file), registered())
    found = cited(POLICY, file, "toy")
    assert found is not None
    assert (found.file.name, found.demanded) == ("p.registered.json", False)
    assert cited(POLICY, file, "other") is None
    named = cited(replace(POLICY, registered=tmp_path / "own.json"), file, "toy")
    assert named is not None
    assert (named.file.name, named.registration, named.demanded) == ("own.json", None, True)


def test_a_policy_names_its_registration_from_its_own_folder(tmp_path: Path) -> None:
    from tests.make.toy import GATES as TOYS
    from tests.make.toy import HEAD, STEP

    file = tmp_path / "p.toml"
    file.write_text(HEAD + 'registered = "plans/p.json"\n' + STEP + TOYS)
    assert load_policy(file).registered == tmp_path / "plans" / "p.json"
