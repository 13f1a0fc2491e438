"""The attempts at one control, counted from the experiments on its data set.

An attempt is a look at a candidate by new evidence or by other gates. Each may give a false PASS,
so all candidates for the place of one control share an error budget. The count comes from the
experiment log.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.core.digest import of_json
from harness.core.evidence import Load
from harness.core.gate import StepDecision, Verdict
from harness.core.names import Experiment, ExperimentInputs, Looked
from harness.policy.model import Policy, Step

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
SAME = "same_answers"
"""Stands where a finding names its rule: answers that are the same, hit for hit."""
NAMED = {"load": "load test", "race resumed": "race that was stopped and resumed"}
"""What is said of a kind of experiment, where that is other than its name."""


@dataclass(frozen=True, slots=True)
class Looks:
    """Attempts at the control of one step, this one included."""

    untimed: int
    """Distinct bodies of untimed evidence, of every candidate."""
    timed: int
    """Distinct races and load tests that were judged, or that may have been looked at."""
    unjudged: int
    """Of these, the races and load tests that no gate judged."""
    spent: float
    """Level of all attempts together: each at the level of its day, one-sided."""
    since: tuple[str, ...]
    """What is other than at the look before, in words; empty for the first look."""
    before: tuple[tuple[str, str], ...]
    """Day and outcome of each look before this one, oldest first."""
    elsewhere: float = 0.0
    """Of ``spent``, the level of other looks than this one."""
    resumed: int = 0
    """How often a race was stopped and gone on with from what was done; no look by itself."""

    @property
    def attempts(self) -> int:
        """Looks that count against the error budget: a gate rests on one of the two kinds."""
        return max(1, self.untimed, self.timed)


def looked(
    policy: Policy, step: Step, inputs: ExperimentInputs, decision: StepDecision | None = None
) -> Looked:
    """Return what a step is judged on and by: two looks are one where all of it is the same.

    Answers that are the same may have taken several attempts at once.

    Gates are those of every step that compares the two arms. A step whose gates hold at every look
    rests on its arms, however many queries they answered.
    """
    arms = step.control, step.candidate
    measured = all(arm in inputs.runs for arm in arms)
    kinds = {gate.settings.timed for gate in step.gates if measured}
    if all(gate.settings.every_look for gate in step.gates):
        rested = [inputs.corpus, [inputs.manifests.get(arm) for arm in arms]]
    else:
        shown = [inputs.shown.get(arm, inputs.runs.get(arm)) for arm in arms]
        rested = [inputs.corpus, inputs.queries, inputs.qrels, shown]
    clocked: object = inputs.times
    if step.needs(Load):
        clocked = [inputs.times, inputs.load] if inputs.times or inputs.load else None
    by: dict[bool, list[object]] = {False: [], True: []}
    taken = [
        one.p_value or policy.level
        for one in (decision.findings if decision else ())
        if one.rule == SAME and one.verdict is Verdict.PASS
    ]
    same = [one for one in policy.steps if (one.control, one.candidate) == arms]
    for gate in (gate for one in same for gate in one.gates):
        by[gate.settings.timed].append([gate.rule, gate.settings.model_dump(mode="json")])
    return Looked(
        step=step.name,
        control=step.control,
        candidate=step.candidate,
        outcome=decision.outcome.value if decision else "",
        level=max([policy.level, *taken]),
        untimed=of_json([rested, by[False]]) if False in kinds else None,
        timed=of_json([clocked, list(arms), by[True]]) if True in kinds and clocked else None,
    )


def looks(log: Iterable[Experiment], policy: Policy, step: Step, inputs: ExperimentInputs) -> Looks:
    """Count the attempts at the control of ``step``: those in ``log``, and those on ``inputs``."""
    now, known = looked(policy, step, inputs), tuple(log)
    shown = inputs.shown.get(step.control)
    earlier = [  # of whatever policy, step and candidate
        (line, one)
        for line in known
        for one in line.steps
        if one.control == step.control
        or (shown is not None and line.inputs.shown.get(one.control) == shown)
    ]
    today = [looked(policy, one, inputs) for one in policy.steps if one.control == step.control]
    every = [*(one for _, one in earlier), *today]
    judged = [line.inputs for line, one in earlier if one.timed] + [inputs]
    unjudged = _unjudged(known, step, judged) if now.timed else 0
    untimed = _levels((one.untimed, one.level) for one in every)
    timed = _levels((one.timed, one.level) for one in every if now.timed)
    others = [
        (line, one) for line, one in earlier if (one.untimed, one.timed) != (now.untimed, now.timed)
    ]
    last = others[-1][0] if others else None
    return Looks(
        untimed=len(untimed),
        timed=len(timed) + unjudged,
        unjudged=unjudged,
        spent=max(sum(untimed.values()), sum(timed.values()) + unjudged * policy.level),
        since=tuple(_since(last.inputs, inputs)) if last else (),
        before=tuple(
            (line.at.date().isoformat(), one.outcome + _called(line, one, policy, step))
            for line, one in others
        ),
        elsewhere=sum(level for body, level in untimed.items() if body != now.untimed),
        resumed=sum(one.kind == "race resumed" for one in _of_arms(known, step, inputs)),
    )


def _levels(attempts: Iterable[tuple[str | None, float]]) -> Mapping[str, float]:
    """Return the largest level at which each body of evidence was judged, by its digest."""
    found: dict[str, float] = {}
    for digest, level in attempts:
        if digest is not None:
            found[digest] = max(level, found.get(digest, 0.0))
    return found


def _called(line: Experiment, one: Looked, policy: Policy, step: Step) -> str:
    """Describe what a look's policy, step and arms were called, where it is other than today."""
    today = step.name, step.control, step.candidate
    said = []
    if (one.step, one.control, one.candidate) != today:
        said.append(f"step {one.step}, {one.candidate} against {one.control}")
    if line.policy != policy.name:
        said.append(f"policy {line.policy!r}")
    return f" ({', '.join(said)})" if said else ""


def _of_arms(known: Iterable[Experiment], step: Step, now: ExperimentInputs) -> list[Experiment]:
    """Return the experiments with the step's arms, by their names or by what they showed."""
    arms = {step.control, step.candidate}
    shown = {now.shown.get(arm, arm) for arm in arms}
    return [
        one
        for one in known
        if arms <= one.inputs.runs.keys() or shown <= set(one.inputs.shown.values())
    ]


def _unjudged(known: Iterable[Experiment], step: Step, judged: Sequence[ExperimentInputs]) -> int:
    """Count the races and load tests of the step's arms that its gates on time might have seen."""
    mine = _of_arms(known, step, judged[-1])
    races = {one.inputs.times for one in mine if one.kind == "race"}
    loads = {one.inputs.load for one in mine if one.kind == "load"}
    unseen = len(loads - {one.load for one in judged}) if step.needs(Load) else 0
    return len(races - {one.times for one in judged}) + _dropped(mine) + unseen


def _dropped(log: Iterable[Experiment]) -> int:
    """Count the races that were begun and did not end before the next one began."""
    kinds = [line.kind for line in log if line.kind in {"race", "race begun"}]
    return sum(kind == "race begun" and after != "race" for kind, after in pairwise([*kinds, ""]))


def told(log: Iterable[Experiment]) -> tuple[str, ...]:
    """Describe what the lines of ``log`` were, those of one kind together and with their number."""
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


def _since(before: ExperimentInputs, now: ExperimentInputs) -> Iterator[str]:
    """Describe what is other than before; a seed is named with both its values."""
    for name, what in CHANGES.items():
        if getattr(before, name) != getattr(now, name):
            yield what
    for name in sorted({*before.seeds, *now.seeds}):
        old, new = before.seeds.get(name, "none"), now.seeds.get(name, "none")
        if old != new:
            yield f"the seed of the {name} is {new}, it was {old}"
