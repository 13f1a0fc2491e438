"""``decision.json``: written, and read back against its model."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from harness.core.errors import BadFile
from harness.core.gate import StepDecision
from harness.report.decision.model import Decision, Json, StepPart
from harness.report.inputs import ReportInput

MACHINE_FACTS = ("machine", "decided_at", "expires_at", "replayed_at")
HINT = "Write it again with the gate stage"


def to_json(reports: Sequence[ReportInput]) -> Json:
    """Return everything that was decided, as values that JSON can hold."""
    return Decision.of(reports).model_dump(mode="json")


def steps_json(decisions: Iterable[StepDecision]) -> list[Json]:
    """Return what is decided of each step, as JSON has it."""
    return [StepPart.model_validate(one).model_dump(mode="json") for one in decisions]


def without_times(value: Json) -> Json:
    """Copy a decision without anything that a clock or a machine had a part in.

    A step keeps ``untimed_verdict``, from findings without times. Its verdict, its outcome and what
    it waits for may depend on times and are left out, as is the summary.
    """
    rest = copy.deepcopy(value)
    del rest["summary"]
    for dataset in rest["datasets"]:
        del dataset["latency"], dataset["record"]
        for fact in MACHINE_FACTS:
            del dataset["provenance"][fact]
        for step in dataset["steps"]:
            del step["verdict"], step["outcome"], step["waits_for"], step["blocking"]
            step["findings"] = [found for found in step["findings"] if not found["timed"]]
    return rest


class DatasetStep(NamedTuple):
    """One step as ``decision.json`` says it."""

    dataset: str
    decision: StepDecision


def schema() -> Json:
    """Return the JSON Schema (draft 2020-12) of ``decision.json``."""
    return Decision.model_json_schema()


def from_json(value: Json, path: Path) -> tuple[DatasetStep, ...]:
    """Read the decisions back from the content of ``path``."""
    try:
        found = Decision.model_validate_json(json.dumps(value), strict=True)
        return tuple(
            DatasetStep(of.dataset, step.decision(of.dataset))
            for of in found.datasets
            for step in of.steps
        )
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadFile(path, f"{where}: {first['msg']}", HINT) from exc
    except ValueError as exc:
        raise BadFile(path, str(exc), HINT) from exc
