"""What is other than registered: gates and bounds, data, numbers of queries, races and looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.core.printable import counted, many
from harness.corpus.inventory import Inventory, changes
from harness.gates.base.rules import Rules
from harness.policy.model import Gate, Policy, Step
from harness.policy.plan.at_hand import AtHand, Raced
from harness.policy.plan.need import Assumed
from harness.policy.plan.needs import needs
from harness.policy.plan.registration import (
    RegisteredGate,
    RegisteredNeed,
    RegisteredStep,
    Registration,
    common,
    settings_changed,
)

SOME = 3


def departures(
    registered: Registration, policy: Policy, at_hand: AtHand, dataset: str, inventory: Inventory
) -> tuple[str, ...]:
    """Say what differs in policy and data, which rests on no clock.

    ``policy`` is as its file has it. Queries and judgements that were added are as planned:
    judging follows the plan. What was removed, or judged otherwise than it was, is not.
    """
    if registered.dataset != dataset:
        return (f"the data set is {dataset}, registered {registered.dataset}",)
    return (
        *settings_changed(registered.rules, common(policy)),
        *_steps(registered.steps, policy),
        *_lost(registered.inventory, inventory),
        *_fewer(registered.steps, policy, at_hand),
    )


def departures_today(
    registered: Registration, race: Raced | None, looks: Mapping[str, int]
) -> tuple[str, ...]:
    """Say what differs in the race and in how often it was looked at, here and today.

    ``looks`` is by step. More of them than planned are one too many for each that was made after
    the registration.
    """
    return (*_race(registered.steps, race), *_looks(registered, looks))


def _steps(registered: Sequence[RegisteredStep], policy: Policy) -> Iterator[str]:
    now = {step.name: step for step in policy.steps}
    before = {one.step: one for one in registered}
    for name in before.keys() - now.keys():
        yield f"step {name} was registered and is gone"
    for step in policy.steps:
        if step.name not in before:
            yield f"step {step.name} was not registered"
            continue
        one = before[step.name]
        if (one.control, one.candidate) != (step.control, step.candidate):
            yield (
                f"step {step.name} compares {step.candidate} with {step.control}, registered"
                f" {one.candidate} with {one.control}"
            )
        yield from _gates(one, step)


def _gates(one: RegisteredStep, step: Step) -> Iterator[str]:
    now = {gate.name: gate for gate in step.gates}
    before = {gate.gate: gate for gate in one.gates}
    for name in [name for name in before if name not in now]:
        yield f"gate {name!r} of step {step.name} was registered and is gone"
    for name, gate in now.items():
        if name not in before:
            yield f"gate {name!r} of step {step.name} was not registered"
        elif said := _gate(before[name], gate):
            yield f"gate {name!r} of step {step.name}: {', '.join(said)}"


def _gate(before: RegisteredGate, now: Gate) -> tuple[str, ...]:
    if before.rule != now.rule.name:
        return (f"rule is {now.rule.name}, registered {before.rule}",)
    return settings_changed(before.settings, now.settings.model_dump(mode="json"))


def _lost(before: Inventory, now: Inventory) -> Iterator[str]:
    found = changes(before, now)
    for ids, what in (
        (found.queries.removed, "removed"),
        (found.queries.changed, "changed"),
        (found.judgements.removed, "without judgements that had some"),
        (found.judgements.changed, "with other judgements"),
    ):
        if ids:
            some = ", ".join(ids[:SOME]) + (", ..." if len(ids) > SOME else "")
            yield f"{counted(len(ids), 'query')} {what} ({some})"


def _fewer(registered: Sequence[RegisteredStep], policy: Policy, at_hand: AtHand) -> Iterator[str]:
    """Name gates that have fewer queries than planned."""
    gates = {(step.name, gate.name): gate for step in policy.steps for gate in step.gates}
    for step in registered:
        for one in step.gates:
            gate = gates.get((step.step, one.gate))
            if gate is None:
                continue
            have = _have(gate, policy.rules, at_hand)
            for need in one.needs:
                count = have.get((need.of, need.independent), need.queries)
                if not need.processes and count < need.queries:
                    kind = "independent " if need.independent else ""
                    yield (
                        f"gate {one.gate!r} of step {step.step} has {count:,} {kind}{need.of},"
                        f" planned {need.queries:,}"
                    )


def _have(gate: Gate, rules: Rules, at_hand: AtHand) -> dict[tuple[str, bool], int]:
    found = needs(gate, rules, at_hand, None, Assumed())
    return {
        (one.of, one.independent): one.have.independent if one.independent else one.have.queries
        for one in found
        if one.have is not None
    }


def _race(registered: Sequence[RegisteredStep], race: Raced | None) -> Iterator[str]:
    timed = [need for step in registered for gate in step.gates for need in gate.needs]
    timed = [need for need in timed if need.processes]
    if not timed or race is None:
        return
    queries, processes = (max(column) for column in zip(*map(_size, timed), strict=True))
    if race.queries < queries:
        yield f"{counted(race.queries, 'query was')} raced, planned {queries:,}"
    if race.processes < processes:
        yield f"the race had {many(race.processes, 'process')}, planned {processes}"


def _size(need: RegisteredNeed) -> tuple[int, int]:
    return need.queries, need.processes


def _looks(registered: Registration, looks: Mapping[str, int]) -> Iterator[str]:
    planned = {one.step: one.looks for one in registered.steps}
    only = next(iter(planned.values())) if len(planned) == 1 else 1
    for step, count in looks.items():
        allowed = registered.looked.get(step, 0) + planned.get(step, only)
        if count > allowed:
            yield f"step {step} was looked at {count} times, planned {allowed}"
