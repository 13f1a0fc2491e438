"""Policy files, read with exact messages for their faults."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from harness.core.errors import BadPolicy, EvidenceError, UnknownName
from harness.core.formats import MAX_SETTINGS_BYTES, toml_of
from harness.core.printable import between, many
from harness.core.reading import Malformed, text_of
from harness.gates.base import rules
from harness.gates.base.rules import Rules
from harness.policy.model import (
    AcceptedDecision,
    Gate,
    GateHead,
    Policy,
    PolicyFile,
    Step,
    StepTable,
)
from harness.stats.sample_size import ROUNDED, unseen_loss

KeyPath = tuple[str | int, ...]
TABLE = re.compile(r"\s*(\[{1,2})\s*([\w.-]+)\s*\]")
KEY = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")


def find(text: str) -> Mapping[KeyPath, int]:
    """Return the line, from 1, of each table and of each bare key that begins one."""
    found: dict[KeyPath, int] = {}
    count: Counter[KeyPath] = Counter()
    table: KeyPath = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if head := TABLE.match(line):
            *around, last = head[2].split(".")
            table = ()
            for part in around:  # inside an array of tables it belongs to the latest element
                table = (*table, part)
                table = (*table, count[table] - 1) if count[table] else table
            table = (*table, last)
            if head[1] == "[[":
                count[table] += 1
                table = (*table, count[table] - 1)
            found[table] = number
        elif key := KEY.match(line):
            found[*table, key[1]] = number
    return found


def nearest(lines: Mapping[KeyPath, int], path: KeyPath) -> int | None:
    """Line of ``path``, or of the smallest table around it; None where there is none."""
    around = (path[:size] for size in range(len(path), 0, -1))
    return next((lines[key] for key in around if key in lines), None)


SHOWN = 100
"""Characters of a value that a message shows."""
Model = TypeVar("Model", bound=BaseModel)
TABLES = {
    "policy": "Write the table [policy]",
    "step": "Write at least one [[step]]",
    "gate": "Write at least one [[step.gate]]: a step without gates decides nothing",
}


def load_policy(path: Path) -> Policy:
    """Read the policy in ``path``."""
    try:
        text = text_of(path, most=MAX_SETTINGS_BYTES)
    except (OSError, Malformed) as error:
        raise BadPolicy(path, f"cannot be read ({error})", "Give the path of a policy") from error
    try:
        raw = toml_of(text)
    except Malformed as error:
        raise BadPolicy(path, f"is not TOML: {error}", "Correct it", error.line) from error
    return _Reader(path, find(text)).policy(raw)


class _Reader:
    """Turns tables into values; knows the file, so that errors can name its lines."""

    def __init__(self, path: Path, lines: Mapping[KeyPath, int]) -> None:
        self._path = path
        self._lines = lines

    def policy(self, raw: Mapping[str, Any]) -> Policy:
        file = self._table(PolicyFile, raw, (), "the policy")
        head = file.policy
        steps = tuple(self._step(at, table) for at, table in enumerate(file.step))
        self._once([step.name for step in steps], ("step",), "steps")
        rules = Rules(
            confidence=1 - (1 - head.confidence) / head.attempts,
            resamples=head.resamples,
            seed=head.seed,
            power=head.power,
            largest_cluster=head.largest_cluster,
        )
        policy = Policy(rules=rules, steps=steps, **_same(head, Policy))
        self._with_room(policy)
        return policy

    def _with_room(self, policy: Policy) -> None:
        """Refuse margins that no number of queries shows beside clusters of the largest share."""
        share, level = policy.rules.largest_cluster, policy.rules.level / 2
        margins = [
            (margin, gate.name)
            for step in policy.steps
            for gate in step.gates
            if gate.settings.measures
            and (margin := getattr(gate.settings, "margin", 0.0)) > 0
            and margin <= ROUNDED * unseen_loss(share, level)
        ]
        if margins:
            margin, gate = min(margins)
            self._wrong(
                ("policy", "largest_cluster"),
                f"gate {gate!r} has a margin of {margin:g}, and clusters of {share:.2%} may hide a"
                f" loss of {unseen_loss(share, level):.4f} from any number of queries",
                f"Lower largest_cluster below {margin / (ROUNDED * -math.log(level)):.5f}, or raise"
                " the margin",
            )

    def _step(self, at: int, table: StepTable) -> Step:
        if table.control == table.candidate:
            self._wrong(
                ("step", at, "candidate"),
                f"step {table.name} compares {table.control} with itself",
                "Name two different arms",
            )
        if table.taken and table.baseline is None:
            self._wrong(
                ("step", at, "taken"),
                f"step {table.name} was taken, and does not name what it was judged against",
                f"Write baseline = ...: the fingerprint of {table.control} in the decision that it"
                " was taken by (decision.json, provenance.arms)",
            )
        gates = tuple(self._gate(at, number, raw) for number, raw in enumerate(table.gate))
        self._once([gate.name for gate in gates], ("step", at, "gate"), f"gates of {table.name}")
        file, sha256 = table.accepted, table.accepted_sha256
        accepted = AcceptedDecision(self._path.parent / file, sha256) if file and sha256 else None
        if (file or sha256) and not (accepted and table.taken):
            names = "names half of" if table.taken else "was not taken, and names"
            self._wrong(
                ("step", at, "accepted" if file else "accepted_sha256"),
                f"step {table.name} {names} the decision that it was taken by",
                "Write accepted, the file of that decision, and accepted_sha256, its digest, in a"
                " step with taken = true",
            )
        return Step(gates=gates, **_same(table, Step) | {"accepted": accepted})

    def _gate(self, step: int, number: int, raw: Mapping[str, Any]) -> Gate:
        at: KeyPath = ("step", step, "gate", number)
        head = self._table(GateHead, raw, at, "a gate")
        try:
            rule = rules.load(head.rule)
        except UnknownName as error:
            self._wrong((*at, "rule"), str(error).removesuffix("?"), "Write one of these rules")
        settings = {key: value for key, value in raw.items() if key not in GateHead.model_fields}
        said = f"gate {head.name!r} (rule {head.rule})"
        return Gate(head.name, head.rule, self._table(rule, settings, at, said), settings)

    def _table(self, model: type[Model], raw: Mapping[str, Any], at: KeyPath, owner: str) -> Model:
        try:
            return model.model_validate(raw)
        except ValidationError as errors:
            found = errors.errors(include_url=False)
            misspelt = [error for error in found if error["type"] == "extra_forbidden"]
            self._explain(model, (misspelt or found)[0], at, owner)

    def _explain(
        self, model: type[BaseModel], error: ErrorDetails, at: KeyPath, owner: str
    ) -> NoReturn:
        """Raise the error that a person can act on."""
        path = (*at, *error["loc"])
        key = ".".join(str(part + 1) if isinstance(part, int) else part for part in error["loc"])
        if error["type"] in {"missing", "too_short"}:
            last = str(error["loc"][-1])
            hint = TABLES.get(last, f"Write {last} = ...; nothing has a default here")
            self._wrong(path, f"{owner} has no {key}", hint)
        if error["type"] == "extra_forbidden":
            known = ", ".join(model.model_fields) or "none"
            self._wrong(
                path,
                f"{owner} has an unknown key {key}",
                f"Its keys are {known}" if len(error["loc"]) == 1 else "Remove it or correct it",
            )
        said = error["msg"].removeprefix("Value error, ")
        said = said[:1].lower() + said[1:] if said.startswith("Input ") else said
        self._wrong(
            path,
            f"{owner}: {key} is {between(repr(error['input']), SHOWN)}, but {said}",
            f"Correct {key}",
        )

    def _once(self, names: list[str], at: KeyPath, kind: str) -> None:
        for number, name in enumerate(names):
            if name in names[:number]:
                self._wrong(
                    (*at, number, "name"), f"two {kind} are named {name!r}", "Rename one of the two"
                )

    def _wrong(self, at: KeyPath, problem: str, hint: str) -> NoReturn:
        raise BadPolicy(self._path, problem, hint, nearest(self._lines, at))


def _same(table: BaseModel, kind: type) -> dict[str, Any]:
    """Return the keys of a table that are fields of what is made of it."""
    names = [field.name for field in fields(kind) if field.name in type(table).model_fields]
    return {name: getattr(table, name) for name in names}


def for_arms(template: Policy, arms: Sequence[str], control: str = "") -> Policy:
    """Judge each arm by the template's one step, against ``control`` or else against itself."""
    if len(template.steps) != 1:
        raise EvidenceError(
            f"the policy {template.name} has {many(len(template.steps), 'step')}, which name their"
            f" own arms. {'Leave --control out, or name' if control else 'Name'} a policy with one"
            " step, whose gates judge each arm"
        )
    if not arms:
        raise EvidenceError(f"no arm is compared with {control}; name one more with --arms")
    (step,) = template.steps
    steps = (replace(step, name=arm, control=control or arm, candidate=arm) for arm in arms)
    return replace(template, steps=tuple(steps), chained=False)


class NamedStep(NamedTuple):
    """A step as a decision names it."""

    step: str
    control: str
    candidate: str


def as_applied(template: Policy, judged: Sequence[NamedStep]) -> Policy:
    """Return the policy that has exactly the steps ``judged``, in their order."""
    own = [NamedStep(step.name, step.control, step.candidate) for step in template.steps]
    if judged and list(judged) == own[: len(judged)]:
        return template.until(judged[-1].step)
    controls = {one.control for one in judged}
    names = [one.candidate for one in judged]
    if len(own) == 1 and len(controls) == 1 and names == [one.step for one in judged]:
        return for_arms(template, names, controls.pop())
    said = ", ".join(one.step for one in judged) or "none"
    raise EvidenceError(
        f"the steps {said} were judged, and the policy {template.name} has"
        f" {', '.join(one.step for one in own)}; decide again: harness gate"
    )
