"""A plan registered before the results were seen: a file that is written once and cited later.

It has the gates with their bounds, the planned number of queries of each, the data, and the number
of looks until then.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from harness.core import digest, json_models
from harness.core.errors import BadFile
from harness.core.experiment import Sha256
from harness.core.files import json_text
from harness.core.json_models import Moment
from harness.corpus.inventory import Inventory
from harness.policy.model import Policy, Step
from harness.policy.plan.plan import Planned, PlannedStep

SUFFIX = ".registered.json"
HINT = "Bring the file back (git); a registration is never written anew"
Count = Annotated[int, Field(ge=0)]


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class RegisteredNeed(_Kept):
    """How many queries a gate, or a slice of it, was planned with."""

    of: str
    queries: Count
    independent: bool
    """Whether independent queries are counted."""
    processes: Count
    """Of a race; 0 where none is timed."""


class RegisteredGate(_Kept):
    """One gate as it was written."""

    gate: str
    rule: str
    settings: dict[str, Any]
    needs: tuple[RegisteredNeed, ...]


class RegisteredStep(_Kept):
    """One step as it was written."""

    step: str
    control: str
    candidate: str
    looks: Annotated[int, Field(ge=1)]
    """How often it was planned to be judged."""
    gates: tuple[RegisteredGate, ...]


class Registration(_Kept):
    """All of it, of one policy on one data set."""

    format: Literal[1] = 1
    at: Moment
    by: Annotated[str, Field(min_length=1)]
    policy: str
    """Its name."""
    policy_sha256: Sha256
    code: Sha256
    rules: dict[str, str | int | float | bool | None]
    """Confidence, seed and what else holds for all gates."""
    dataset: str
    inventory: Inventory
    looked: dict[str, Count]
    """How often each step had been looked at by then."""
    steps: tuple[RegisteredStep, ...]


class Cited(NamedTuple):
    """A registration that a decision rests on, and its file."""

    file: Path
    registration: Registration | None
    """None where the policy demands one that is not there."""
    demanded: bool


def common(policy: Policy) -> dict[str, str | int | float | bool | None]:
    """Give what holds for all gates of a policy."""
    rules = policy.rules
    return {
        "confidence": rules.confidence,
        "resamples": rules.resamples,
        "seed": rules.seed,
        "power": rules.power,
        "alpha": policy.alpha,
        "chained": policy.chained,
        "clusters": policy.clusters,
        "largest_cluster": rules.largest_cluster,
        "evidence_days": policy.evidence_days,
    }


def registered_steps(planned: Sequence[PlannedStep]) -> tuple[RegisteredStep, ...]:
    """Turn a plan into what is kept of it."""
    return tuple(_step(one.step, one.needs) for one in planned)


def _step(step: Step, planned: Sequence[Planned]) -> RegisteredStep:
    needs: dict[str, list[RegisteredNeed]] = {gate.name: [] for gate in step.gates}
    for one in planned:
        need = RegisteredNeed(
            of=one.need.of,
            queries=one.queries,
            independent=one.need.independent,
            processes=one.need.processes,
        )
        needs[one.gate.name].append(need)
    return RegisteredStep(
        step=step.name,
        control=step.control,
        candidate=step.candidate,
        looks=step.attempts,
        gates=tuple(
            RegisteredGate(
                gate=gate.name,
                rule=gate.rule.name,
                settings=gate.settings.model_dump(mode="json"),
                needs=tuple(needs[gate.name]),
            )
            for gate in step.gates
        ),
    )


def write(path: Path, registration: Registration) -> str:
    """Write a registration into a file that is not there yet, and give its digest.

    Raises:
        BadFile: there is a file already, or none can be written.
    """
    text = json_text(registration.model_dump(mode="json"))
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as exc:
        hint = "Name another file: what was registered stays as it was"
        raise BadFile(path, "is there already, and is not overwritten", hint) from exc
    except OSError as exc:
        raise BadFile(
            path, f"cannot be written ({exc.strerror})", "Name a file in a folder"
        ) from exc
    return digest.of_file(path)


def read(path: Path) -> Registration:
    """Read a registration.

    Raises:
        BadFile: it cannot be read, or holds something else.
    """
    try:
        return json_models.from_file(Registration, path, HINT)
    except OSError as exc:
        raise BadFile(path, f"cannot be read ({exc.strerror})", HINT) from exc


def path_of(policy_file: Path) -> Path:
    """Name the file that is cited where it lies beside a policy that names none."""
    return policy_file.with_name(policy_file.stem + SUFFIX)


def cited(policy: Policy, policy_file: Path, dataset: str) -> Cited | None:
    """Find the registration of a policy: the one it names, or the one of these data beside it.

    Raises:
        BadFile: the file holds something else.
    """
    if policy.registered is not None:
        found = read(policy.registered) if policy.registered.is_file() else None
        return Cited(policy.registered, found, demanded=True)
    path = path_of(policy_file)
    if not path.is_file():
        return None
    beside = read(path)
    return Cited(path, beside, demanded=False) if beside.dataset == dataset else None


def settings_changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Say each key that is other than registered."""
    return tuple(
        f"{key} is {now.get(key, 'not set')}, registered {before.get(key, 'not set')}"
        for key in sorted({*before, *now})
        if before.get(key) != now.get(key)
    )
