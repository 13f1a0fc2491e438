"""The number of looks at a step, counted from the experiments on its data set.

Each look on other evidence may give a false PASS. The count comes from the experiment log, not from
a declaration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.core.digest import of_json
from harness.core.experiment import Experiment, Inputs, Looked
from harness.policy.model import Gate, Policy, Step

CHANGES = {
    "corpus": "other documents",
    "queries": "other queries",
    "qrels": "other judgements",
    "runs": "other runs",
    "times": "another race",
    "load": "another load test",
    "policy": "another text of the policy",
    "code": "other code",
}
"""Inputs by name, and what is said where one is other than at the look before."""


NAMED = {"load": "load test", "race resumed": "race that was stopped and resumed"}
"""What is said of a kind of experiment, where that is other than its name."""


@dataclass(frozen=True, slots=True)
class Looks:
    """Number of looks at one step, this one included."""

    untimed: int
    """Distinct bodies of untimed evidence that its gates judged."""
    timed: int
    """Distinct races and load tests that its gates judged, or that may have been looked at."""
    unjudged: int
    """Of these, the races and load tests that no gate judged."""
    since: tuple[str, ...]
    """What is other than at the look before, in words; empty for the first look."""
    before: tuple[tuple[str, str], ...]
    """Day and outcome of each look before this one, oldest first."""
    resumed: int = 0
    """How often a race was stopped and gone on with from what was done; no look by itself."""

    @property
    def attempts(self) -> int:
        """Looks that count against the error budget: a gate rests on one of the two kinds."""
        return max(1, self.untimed, self.timed)


def looked(policy: Policy, step: Step, inputs: Inputs, outcome: str = "") -> Looked:
    """Say what a step is judged on: two looks are one where all of it is the same."""
    arms = dict.fromkeys((
        step.control,
        step.candidate,
        *(arm for gate in step.gates for arm in gate.settings.arms),
    ))
    rested = [inputs.corpus, inputs.queries, inputs.qrels, [inputs.runs.get(arm) for arm in arms]]
    return Looked(
        step=step.name,
        control=step.control,
        candidate=step.candidate,
        outcome=outcome,
        untimed=_look(policy, [g for g in step.gates if not g.settings.timed], rested),
        timed=_look(policy, [g for g in step.gates if g.settings.timed], _clocked(step, inputs)),
    )


def _clocked(step: Step, inputs: Inputs) -> object:
    """Give what its gates on time rest on; None where that is nothing."""
    if not any(gate.settings.loaded for gate in step.gates):
        return inputs.times
    return [inputs.times, inputs.load] if inputs.times or inputs.load else None


def _look(policy: Policy, gates: Sequence[Gate], rested: object) -> str | None:
    if not gates or rested is None:
        return None
    rules = policy.rules
    asked = [[gate.rule.name, gate.settings.model_dump(mode="json")] for gate in gates]
    return of_json([asked, rules.confidence, rules.resamples, rules.seed, rested])


def looks(log: Iterable[Experiment], policy: Policy, step: Step, inputs: Inputs) -> Looks:
    """Count the looks at ``step`` in ``log``, and the one that is being made on ``inputs``."""
    now, known = looked(policy, step, inputs), tuple(log)
    mine = list(_mine(known, policy, step, inputs))
    judged = [line.inputs for line, one in mine if one.timed] + [inputs]
    unjudged = _unjudged(known, step, judged) if now.timed else 0
    others = [
        (line, one) for line, one in mine if (one.untimed, one.timed) != (now.untimed, now.timed)
    ]
    last = others[-1][0] if others else None
    return Looks(
        untimed=len({now.untimed, *(one.untimed for _, one in mine)} - {None}),
        timed=len({now.timed, *(one.timed for _, one in mine)} - {None}) + unjudged,
        unjudged=unjudged,
        since=tuple(_since(last.inputs, inputs)) if last else (),
        before=tuple(
            (line.at.date().isoformat(), one.outcome + _called(line, one, policy, step))
            for line, one in others
        ),
        resumed=sum(one.kind == "race resumed" for one in _of_arms(known, step, inputs)),
    )


def _mine(
    known: Sequence[Experiment], policy: Policy, step: Step, inputs: Inputs | None
) -> Iterator[tuple[Experiment, Looked]]:
    """Yield the looks at what ``step`` compares, whatever policy, step and arms were called.

    The log is of one data set. A look is at this step where arms of the same names were compared,
    or arms that showed the same; unless another step of the policy, which compares them too, has
    its name.
    """
    here = _pairs(known, step, inputs)
    others = {
        other.name
        for other in policy.steps
        if other.name != step.name and _pairs(known, other, inputs) & here
    }
    for line in known:
        for one in line.steps:
            if one.step not in others and _pair(one, line.inputs) & here:
                yield line, one


def _pairs(known: Iterable[Experiment], step: Step, inputs: Inputs | None) -> set[tuple[str, str]]:
    """Give every pair, of names and of what they showed, by which ``step`` is known."""
    found = {(step.control, step.candidate)}
    for one in (*(line.inputs for line in known), *([inputs] if inputs else [])):
        found |= _pair(step, one)
    return found


def _pair(of: Step | Looked, inputs: Inputs) -> set[tuple[str, str]]:
    """Give a step's arms by name, and by the digests of what they showed where it is known."""
    shown = inputs.shown.get(of.control), inputs.shown.get(of.candidate)
    by_name = {(of.control, of.candidate)}
    return by_name | {(shown[0], shown[1])} if shown[0] and shown[1] else by_name


def _called(line: Experiment, one: Looked, policy: Policy, step: Step) -> str:
    """Say what a look's policy, step and arms were called, where it is other than today."""
    today = step.name, step.control, step.candidate
    said = []
    if (one.step, one.control, one.candidate) != today:
        said.append(f"step {one.step}, {one.candidate} against {one.control}")
    if line.policy != policy.name:
        said.append(f"policy {line.policy!r}")
    return f" ({', '.join(said)})" if said else ""


def _unjudged(known: Iterable[Experiment], step: Step, judged: Sequence[Inputs]) -> int:
    """Count the races and load tests of the step's arms that its gates on time might have seen.

    A race that was begun and not ended is one: who dropped it may have read its first times.
    """
    mine = _of_arms(known, step, judged[-1])
    races = {one.inputs.times for one in mine if one.kind == "race"}
    loads = {one.inputs.load for one in mine if one.kind == "load"}
    loaded = any(gate.settings.loaded for gate in step.gates)
    unseen = len(loads - {one.load for one in judged}) if loaded else 0
    return len(races - {one.times for one in judged}) + _dropped(mine) + unseen


def _of_arms(known: Iterable[Experiment], step: Step, now: Inputs) -> list[Experiment]:
    """Give the experiments with the step's arms, by their names or by what they showed."""
    shown = {now.shown.get(arm, arm) for arm in (step.control, step.candidate)}
    return [
        one
        for one in known
        if {step.control, step.candidate} <= one.inputs.runs.keys()
        or shown <= set(one.inputs.shown.values())
    ]


def _dropped(log: Iterable[Experiment]) -> int:
    """Count the races that were begun and did not end before the next one began."""
    kinds = [line.kind for line in log if line.kind in {"race", "race begun"}]
    return sum(kind == "race begun" and after != "race" for kind, after in pairwise([*kinds, ""]))


def looked_so_far(log: Iterable[Experiment], policy: Policy) -> dict[str, int]:
    """Count the looks in ``log`` at each step of a policy, by its name; unseen ones are left out.

    Whatever policy, step and arms were called then, it is a look where it is one for ``looks``.
    """
    known, found = tuple(log), {}
    for step in policy.steps:
        mine = [one for _, one in _mine(known, policy, step, None)]
        untimed, timed = {one.untimed for one in mine}, {one.timed for one in mine}
        if mine:
            found[step.name] = max(len(untimed - {None}), len(timed - {None}))
    return found


def told(log: Iterable[Experiment]) -> tuple[str, ...]:
    """Say what the lines of ``log`` were, those of one kind together and with their number."""
    said: Counter[str] = Counter()
    lines = tuple(log)
    if dropped := _dropped(lines):
        said["race that was dropped"] = dropped
    for line in lines:
        for one in line.steps:
            said[f"{one.candidate} against {one.control} by policy {line.policy!r}"] += 1
        if not line.steps and line.kind != "race begun":
            said[NAMED.get(line.kind, line.kind)] += 1
    return tuple(f"{what}, {count}x" if count > 1 else what for what, count in said.items())


def _since(before: Inputs, now: Inputs) -> Iterable[str]:
    """Say what is other than before; a seed is named with both its values."""
    for name, what in CHANGES.items():
        if getattr(before, name) != getattr(now, name):
            yield what
    for name in sorted({*before.seeds, *now.seeds}):
        old, new = before.seeds.get(name, "none"), now.seeds.get(name, "none")
        if old != new:
            yield f"the seed of the {name} is {new}, it was {old}"
