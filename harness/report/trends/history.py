"""A rolling history: what each decision said and rested on, one JSON object a line.

Of times only ratios are kept: a clock of another day says nothing of today's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from harness.core import json_models
from harness.core.digest import of_json
from harness.core.durable.locks import held
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import write_text
from harness.core.gate import Outcome, Verdict
from harness.core.json_models import Moment
from harness.core.reading import numbered
from harness.policy.age import check_past

FORMAT = 1
HINT = "Bring the file back (git), or take the line out"
Json = Mapping[str, Any]


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Interval(_Kept):
    """A number with its interval; an end that is not there is infinite."""

    value: float
    low: float | None
    high: float | None
    n: int


class PolicyKept(_Kept):
    """Which policy decided."""

    name: str
    version: str
    sha256: str


class StepKept(_Kept):
    """What was decided of one step."""

    step: str
    control: str
    candidate: str
    verdict: Verdict
    outcome: Outcome
    gates: dict[str, Verdict]
    ratios: dict[str, Interval]
    """Time of the candidate over that of the control: p50, p95 and mean; empty without a race."""


class Entry(_Kept):
    """One decision."""

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)] = FORMAT
    decision_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    decided_at: Moment
    dataset: str
    commit: str
    """Of the project, with a plus sign where files differed from it; empty without git."""
    code: str
    """Digest of the harness and the engines."""
    python: str
    packages: dict[str, str]
    data: dict[str, str]
    """Digests of corpus, queries and qrels."""
    policy: PolicyKept | None
    measure: str
    """What arms are compared by first."""
    steps: tuple[StepKept, ...]
    means: dict[str, dict[str, Interval]]
    """By arm and measure."""
    engines: dict[str, str] = {}
    """Fingerprint of each arm; what was kept by earlier versions has none."""
    settings: dict[str, str] = {}
    """Digest of what each stage was set to; as ``engines``."""


def entry_of(about: Json, *, decision_sha256: str, commit: str) -> Entry:
    """Keep what ``decision.json`` says of one data set."""
    of, latency = about["provenance"], about["latency"]
    ratios = latency["ratios"] if latency else {}
    return Entry(
        decision_sha256=decision_sha256,
        decided_at=of["decided_at"],
        dataset=about["dataset"],
        commit=commit,
        code=of["code_version"],
        python=of["python"],
        packages=of["packages"],
        data=of["sha256"],
        policy=PolicyKept(**about["policy"]) if about["policy"] else None,
        measure=about["quality"]["measure"],
        steps=tuple(
            StepKept(
                step=step["step"],
                control=step["control"],
                candidate=step["candidate"],
                verdict=step["verdict"],
                outcome=step["outcome"],
                gates={finding["gate"]: finding["verdict"] for finding in step["findings"]},
                ratios=_intervals(ratios.get(step["step"], {})),
            )
            for step in about["steps"]
        ),
        means={arm: _intervals(row) for arm, row in about["quality"]["means"].items()},
        engines={arm: one["fingerprint"] for arm, one in of["arms"].items()},
        settings={stage: of_json(how) for stage, how in of.get("settings", {}).items()},
    )


def _intervals(row: Mapping[str, Json | None]) -> dict[str, Interval]:
    return {name: Interval(**found) for name, found in row.items() if found is not None}


def read(path: Path) -> tuple[Entry, ...]:
    """Read a history, by time; one that is not there is empty.

    Raises:
        BadFile: a line is not an entry or is from the future, or a decision is repeated.
    """
    if not path.exists():
        return ()
    found: dict[str, Entry] = {}
    for number, line in numbered(path):
        entry = json_models.from_text(Entry, line, path, HINT, number)
        try:
            check_past(entry.decided_at)
        except EvidenceError as exc:
            raise BadFile(path, str(exc), HINT, number) from exc
        if entry.decision_sha256 in found:
            raise BadFile(path, "this decision is there already", HINT, number)
        found[entry.decision_sha256] = entry
    return tuple(sorted(found.values(), key=lambda entry: entry.decided_at))


def add(path: Path, entry: Entry) -> bool:
    """Add an entry, and tell whether it was new; it is on the disk then.

    Raises:
        BadFile: as ``read``.
    """
    with held(path):
        known = read(path)
        if any(entry.decision_sha256 == one.decision_sha256 for one in known):
            return False
        entries: Sequence[Entry] = sorted((*known, entry), key=lambda one: one.decided_at)
        text = "".join(one.model_dump_json() + "\n" for one in entries)
        write_text(path, text, durable=True)
        return True


def changed(before: Entry, after: Entry) -> tuple[str, ...]:
    """Say what differs between two decisions beside their numbers, in words."""
    found = [f"the engine {arm}" for arm in _other(before.engines, after.engines)]
    for key, what in (("corpus", "documents"), ("queries", "queries"), ("qrels", "judgements")):
        if before.data[key] != after.data[key]:
            found.append(f"other {what}")
    if before.policy != after.policy:
        names = [one.policy.name if one.policy else "none" for one in (before, after)]
        found.append("the policy's text" if names[0] == names[1] else f"policy {names[1]}")
    for name in sorted({*before.packages, *after.packages}):
        old, new = before.packages.get(name, "absent"), after.packages.get(name, "absent")
        if old != new:
            found.append(f"{name} {old} → {new}")
    if before.python != after.python:
        found.append(f"Python {before.python} → {after.python}")
    if before.code != after.code:
        found.append("the code")
    found += [f"the settings of {stage}" for stage in _other(before.settings, after.settings)]
    for word, arms in (
        ("new arm", after.means.keys() - before.means.keys()),
        ("gone arm", before.means.keys() - after.means.keys()),
    ):
        found += [f"{word} {arm}" for arm in sorted(arms)]
    return tuple(found)


def _other(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Name what both have and hold to be another."""
    return [name for name in sorted(before.keys() & after.keys()) if before[name] != after[name]]


def comparable(before: Entry, after: Entry) -> bool:
    """Tell whether measures of the two are of the same documents, queries and judgements."""
    return before.data == after.data
