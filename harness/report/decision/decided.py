"""``decision.json`` read back, checked against its schema and its own findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from harness.core.errors import BadFile
from harness.core.formats import json_file
from harness.core.gate import Cause, Finding, StepDecision, Verdict
from harness.core.scores import Estimate

SCHEMA = Path(__file__).with_name("decision.schema.json")
HINT = "Write it again with the gate stage"
Json = dict[str, Any]


class Decided(NamedTuple):
    """One step as ``decision.json`` says it."""

    dataset: str
    decision: StepDecision


def schema() -> Json:
    """JSON Schema (draft 2020-12) of ``decision.json``."""
    found: Json = json_file(SCHEMA)
    return found


def _read_estimate(value: Json | None) -> Estimate | None:
    if value is None or value["value"] is None:
        return None
    low = -float("inf") if value["low"] is None else value["low"]
    high = float("inf") if value["high"] is None else value["high"]
    return Estimate(value["value"], low, high, value["n"])


def _read_finding(value: Json, path: Path) -> Finding:
    kept = {name: value[name] for name in value if name != "settle"}
    kept |= {
        "verdict": Verdict(value["verdict"]),
        "cause": Cause(value["cause"]),
        "estimate": _read_estimate(value["estimate"]),
        "remedy": value["settle"],
    }
    try:
        return Finding(**kept)
    except ValueError as exc:
        raise BadFile(path, str(exc), HINT) from exc


def from_json(value: Json, path: Path) -> tuple[Decided, ...]:
    """Read the decisions back from the content of ``path``.

    Raises:
        BadFile: it breaks the schema, or says a verdict that its own findings do not give.
    """
    import jsonschema

    problems = jsonschema.Draft202012Validator(schema()).iter_errors(value)
    first = min(problems, key=lambda problem: problem.json_path, default=None)
    if first is not None:
        raise BadFile(path, f"{first.json_path}: {first.message}", HINT)
    found = []
    for dataset in value["datasets"]:
        for step in dataset["steps"]:
            decision = StepDecision(
                step=step["step"],
                control=step["control"],
                candidate=step["candidate"],
                taken=step["taken"],
                findings=tuple(_read_finding(each, path) for each in step["findings"]),
                blocked_by=step["waits_for"],
                accepted_by=step["accepted_by"],
            )
            said = step["verdict"], step["outcome"]
            if said != (decision.verdict.value, decision.outcome.value):
                problem = (
                    f"step {decision.step} of {dataset['dataset']} says {said[0]}, {said[1]},"
                    f" but its findings give {decision.verdict}, {decision.outcome}"
                )
                raise BadFile(path, problem, HINT)
            found.append(Decided(dataset["dataset"], decision))
    return tuple(found)
