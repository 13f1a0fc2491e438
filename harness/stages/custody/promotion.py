"""The decision that a step was taken by: its bytes, what it said, and the index it accepted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from harness.core import digest
from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import Evidence
from harness.core.formats import json_file
from harness.core.gate import Outcome
from harness.policy.model import Accepted, Policy, Step

HINT = "Bring back the decision that the step was taken by, or take the step back in the policy"
PREFIX = 12


class _Said(NamedTuple):
    path: Path
    control: str
    candidate: str
    outcome: str
    fingerprint: str
    """Of the candidate's index."""


def check_accepted(policy: Policy, dataset: str, evidence: Mapping[str, Evidence]) -> None:
    """Hold every step that was taken against the decision that the policy says it was taken by.

    Raises:
        BadFile: the decision is missing, or does not speak of the step on this data set.
        EvidenceError: it is not the one whose digest the policy names; it was about other arms or
            did not promote. Or the next step's control has another index than it accepted.
    """
    said = {
        step.name: _promoted(step, _read(step, step.accepted, dataset))
        for step in policy.steps
        if step.taken and step.accepted
    }
    for at, step in enumerate(policy.steps):
        before = policy.accepting(at)
        if before and before.name in said and step.name in evidence:
            _same_index(before, said[before.name], step, evidence[step.name])


def _promoted(step: Step, said: _Said) -> _Said:
    arms = said.control, said.candidate
    if arms != (step.control, step.candidate):
        raise EvidenceError(
            f"{said.path}: decided on {' -> '.join(arms)}, and step {step.name} is"
            f" {step.control} -> {step.candidate}. {HINT}"
        )
    if said.outcome != Outcome.PROMOTE:
        raise EvidenceError(
            f"{said.path}: says {said.outcome} of step {step.name}, which the policy calls taken."
            f" {HINT}"
        )
    return said


def _read(step: Step, accepted: Accepted, dataset: str) -> _Said:
    path = accepted.path
    if not path.is_file():
        raise BadFile(path, f"is gone, and step {step.name} was taken by it", HINT)
    if (found := digest.of_file(path)) != accepted.sha256:
        raise EvidenceError(
            f"{path}: is {found[:PREFIX]}, and step {step.name} was taken by"
            f" {accepted.sha256[:PREFIX]}. {HINT}"
        )
    try:
        written: Any = json_file(path)
        about = next(one for one in written["datasets"] if one["dataset"] == dataset)
        said = next(one for one in about["steps"] if one["step"] == step.name)
        arm = about["provenance"]["arms"][said["candidate"]]
        return _Said(path, said["control"], said["candidate"], said["outcome"], arm["fingerprint"])
    except (ValueError, KeyError, TypeError) as exc:
        raise BadFile(path, f"is not a decision ({exc!r})", HINT) from exc
    except StopIteration:
        raise BadFile(path, f"says nothing of step {step.name} on {dataset}", HINT) from None


def _same_index(step: Step, said: _Said, later: Step, found: Evidence) -> None:
    measured = found.control.manifest.fingerprint
    if measured != said.fingerprint:
        raise EvidenceError(
            f"step {later.name} is judged against {later.control} {measured[:PREFIX]}, and the"
            f" decision that step {step.name} was taken by accepted {said.fingerprint[:PREFIX]};"
            " its engine, settings or documents differ. Bring them back, or decide that step anew"
        )
