"""Live traffic as evidence: what a log tells of two arms, and the gates on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.agreement import Class
from harness.core.errors import BadFile, EvidenceError
from harness.core.evidence import LOST, ArmResult, Traffic
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.parts import EvidenceKind
from harness.core.run import Status
from harness.pipeline.layout import Layout
from harness.pipeline.receipts import read_manifest

if TYPE_CHECKING:
    from harness.shadow.log import LogContents
    from harness.shadow.record import Observation, SideObservation

FOLDER = "traffic"
FORMAT = 4


def traffic(layout: Layout, control: str, candidate: str, logs: Sequence[Path]) -> Traffic:
    """Write what the logs have of two arms, known by the fingerprints of their indexes here."""
    from harness.shadow.log import read_logs

    first, *more = logs
    by = [read_manifest(layout, arm).fingerprint for arm in (control, candidate)]
    found = count_traffic(read_logs(first, *more), control=by[0], candidate=by[1])
    plain = {of.name: _plain(getattr(found, of.name)) for of in fields(found)}
    write_json(path_of(layout, control, candidate), {"format": FORMAT, "by": by, **plain})
    return found


def path_of(layout: Layout, control: str, candidate: str) -> Path:
    """Return where what was taken in lies; it differs from day to day, and is never tracked."""
    return layout.today / FOLDER / f"{control}~{candidate}.json"


def read_traffic(layout: Layout, control: ArmResult, candidate: ArmResult) -> Traffic | None:
    """Read the live-traffic results of two arms; None where none are of these indexes."""
    path = path_of(layout, control.arm, candidate.arm)
    if not path.is_file():
        return None
    by = [side.manifest.fingerprint for side in (control, candidate)]
    try:
        written = json_file(path)
        if written.pop("format") != FORMAT:
            raise ValueError("of another format")  # noqa: TRY301  one way out for all that is wrong
        same = written.pop("by") == by
        for name, of in ARRAYS.items():
            written[name] = np.array(written[name], dtype=of)
        for name, of in (("overlap", np.float64), ("overlap_at", np.int64)):
            written[name] = {int(k): np.array(at, dtype=of) for k, at in written[name].items()}
        found = Traffic(**written)
    except (ValueError, TypeError, KeyError) as exc:
        hint = "Take the log in again (harness shadow traffic)"
        raise BadFile(path, f"is not imported traffic ({exc})", hint) from exc
    return found if same else None


ARRAYS = {
    "asked": np.int64, "failed": np.bool_, "failed_at": np.int64, "control_ns": np.int64,
    "candidate_ns": np.int64, "timed_at": np.int64,
}  # fmt: skip


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return (value.astype(int) if value.dtype == np.bool_ else value).tolist()
    return {str(k): _plain(of) for k, of in value.items()} if isinstance(value, Mapping) else value


OTHER_CONTROL = "whose control was another engine"
NO_CONTROL = "whose control did not answer"
IN_ITS_PLACE = "answered by another engine"
NS_PER_S = 1_000_000_000


def count_traffic(log: LogContents, *, control: str, candidate: str) -> Traffic:
    """Count what ``log`` has of two arms, which are known by their fingerprints."""
    if not log.observations:
        raise EvidenceError("the log has no attempt; compare the arms on live queries first")
    passed_over: Counter[str] = Counter({LOST: log.missing} if log.missing else {})
    failures: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    clients: defaultdict[str, Counter[str]] = defaultdict(Counter)
    failed: list[tuple[bool, int]] = []
    overlap: dict[int, list[tuple[float, int]]] = {}
    times: list[tuple[int, int, int]] = []
    for seen in log.observations:
        ours, theirs = seen.control, seen.candidate
        reason = _passed_over(seen, control)
        if reason or ours is None or theirs is None:
            passed_over[reason] += 1
            continue
        asked[seen.query] += 1
        clients[seen.writer][seen.client] += 1
        how = _failure(theirs, candidate)
        failed.append((bool(how), seen.at))
        if how:
            failures[how] += 1
        elif seen.jaccard is not None:
            overlap.setdefault(seen.k, []).append((seen.jaccard, seen.at))
        timed = not how or theirs.status is Status.TIMED_OUT
        if timed and ours.elapsed_ns is not None and theirs.elapsed_ns is not None:
            times.append((ours.elapsed_ns, theirs.elapsed_ns, seen.at))
    pairs = np.array(times, dtype=np.int64).reshape(-1, 3)
    by_depth = {k: tuple(zip(*found, strict=True)) for k, found in sorted(overlap.items())}
    return Traffic(
        attempted=len(log.observations) + log.missing,
        passed_over=dict(sorted(passed_over.items())),
        asked=np.array([count for _, count in asked.most_common()], dtype=np.int64),
        largest_client=sum(
            max((count for name, count in own.items() if name), default=0)
            for own in clients.values()
        ),
        unnamed=sum(own[""] for own in clients.values()),
        failed=np.array([bad for bad, _ in failed], dtype=bool),
        failed_at=np.array([at for _, at in failed], dtype=np.int64),
        failures=dict(sorted(failures.items())),
        overlap={k: np.array(values) for k, (values, _) in by_depth.items()},
        overlap_at={k: np.array(at, dtype=np.int64) for k, (_, at) in by_depth.items()},
        control_ns=pairs[:, 0],
        candidate_ns=pairs[:, 1],
        timed_at=pairs[:, 2],
        since=_when(log.observations[0].at),
        until=_when(max(seen.at for seen in log.observations)),
    )


def _passed_over(seen: Observation, control: str) -> str:
    """Return why an attempt tells nothing of the two arms; empty where it does."""
    from harness.shadow.record import SKIPPED

    if seen.outcome in SKIPPED:
        return seen.outcome.value
    if seen.control is None or seen.control.status is not Status.ANSWERED:
        return NO_CONTROL
    if seen.control.served_by != control:
        return OTHER_CONTROL
    if seen.candidate is None or seen.candidate.status is Status.NOT_ASKED:
        return seen.reason or Class.SKIPPED
    return ""


def _failure(candidate: SideObservation, fingerprint: str) -> str:
    if candidate.status is not Status.ANSWERED:
        return candidate.status.name.lower().replace("_", " ")
    return "" if candidate.served_by == fingerprint else IN_ITS_PLACE


def _when(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // NS_PER_S, tz=UTC).isoformat()


GATES = ("Failures", "Overlap", "Slow")
KIND: EvidenceKind[Layout, Traffic] = EvidenceKind(
    name="shadow",
    value=Traffic,
    collect=read_traffic,
    artifacts=lambda layout: tuple(sorted((layout.today / FOLDER).glob("*.json"))),
    rules={f"anytime_{of.lower()}": f"harness.shadow.live:{of}Settings" for of in GATES},
)
