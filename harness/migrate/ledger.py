"""The ledger of a migration, its kill switch, and what its events may rest on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from harness.agreement import UNCOMPARED
from harness.core import digest
from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.files import json_text, write_text
from harness.core.folders import changing
from harness.core.formats import json_file, moment_of
from harness.core.gate import StepDecision, Verdict
from harness.core.reading import Malformed, opened
from harness.migrate import standing
from harness.pipeline.gate import read_decision
from harness.pipeline.layout import Layout
from harness.policy.age import check_past
from harness.policy.model import Step
from harness_engines.stacks.agent_mail.pipeline.plan import NAME, value_in

if TYPE_CHECKING:
    from harness.shadow.record import Observation

SWITCH_FILE = "switch.env"


def write(folder: Path, value: str, *, why: str) -> None:
    """Set the switch, and see it on the disk; ``why`` is a comment for whoever reads the file."""
    write_text(folder / SWITCH_FILE, switch_text(value, why=why), durable=True)


def switch_text(value: str, *, why: str) -> str:
    """Return the file that sets the switch."""
    return f"# harness migrate: {' '.join(why.split())}\n{NAME}={value}\n"


def is_switch(folder: Path) -> bool:
    """Return whether a switch lies in a folder, and no file of somebody's own with its name."""
    try:
        value_in(folder / SWITCH_FILE)
    except BadFile:
        return False
    return True


def drift(folder: Path, wanted: str) -> str:
    """Describe how the file differs from what the ledger wants; empty where it does not."""
    try:
        found = value_in(folder / SWITCH_FILE)
    except BadFile as exc:
        return str(exc)
    if found != wanted:
        return f"{folder / SWITCH_FILE}: is set to {found}, and by the ledger it is {wanted}"
    return ""


NANOSECONDS = 1_000_000_000
SETUP = ("engine", "version", "settings_sha256")
"""Of a manifest, what an engine is beside its documents."""


def evidence(
    layout: Layout, policy_file: Path, held: Callable[[], object]
) -> standing.CurrentDecision:
    """Read the decision in ``layout``; ``held`` counts the digests below it again.

    Nothing is raised for a decision that is not to be believed: it is said why.
    """
    policy_sha256 = digest.of_file(policy_file)
    if not layout.decision.is_file():
        return standing.CurrentDecision(None, "", policy_sha256)
    refused = ""
    try:
        held()
    except HarnessError as exc:
        refused = str(exc)
    try:
        return standing.CurrentDecision(decided(layout), refused, policy_sha256)
    except HarnessError as exc:
        return standing.CurrentDecision(None, refused or str(exc), policy_sha256)


def decided(layout: Layout) -> standing.DecisionRecord:
    """Read what the decision says of each step."""
    decisions, decided_at = read_decision(layout)
    about = json_file(layout.decision)["datasets"][0]
    if about["policy"] is None:
        raise EvidenceError(f"{layout.decision}: no policy decided it; run harness gate")
    try:
        return _decided(layout, about, decisions, decided_at)
    except (Malformed, ValidationError) as exc:
        said = exc.errors()[0]["msg"] if isinstance(exc, ValidationError) else exc
        hint = layout.remedy(Layout.decision)
        raise BadFile(layout.decision, f"it is not what was decided ({said})", hint) from exc


def _decided(
    layout: Layout,
    about: Mapping[str, Any],
    decisions: Iterable[StepDecision],
    decided_at: datetime,
) -> standing.DecisionRecord:
    arms = {
        name: digest.of_json([row[key] for key in SETUP])
        for name, row in about["provenance"]["arms"].items()
    }
    compared = {
        one["name"]: sum(
            count for name, count in one["agreement"]["classes"].items() if name not in UNCOMPARED
        )
        for one in about["comparisons"]
    }
    replays = about["provenance"].get("replayed_at", {})
    raced_at = about["latency"]["raced_at"] if about["latency"] else None
    return standing.DecisionRecord(
        sha256=digest.of_file(layout.decision),
        decided_at=decided_at,
        raced_at=moment_of(raced_at) if raced_at else None,
        policy_sha256=about["policy"]["sha256"],
        steps=tuple(
            _said(one, arms, compared.get(one.step, 0), _earlier(replays, one)) for one in decisions
        ),
    )


def _earlier(replays: Mapping[str, str], one: StepDecision) -> datetime | None:
    """Return when the first of a step's arms was asked; None where it is not known of both."""
    if not {one.control, one.candidate} <= replays.keys():
        return None
    return min(moment_of(replays[arm]) for arm in (one.control, one.candidate))


def _said(
    one: StepDecision, arms: Mapping[str, str], compared: int, replayed_at: datetime | None
) -> standing.Said:
    def gates(verdict: Verdict) -> tuple[str, ...]:
        return tuple(finding.gate for finding in one.findings if finding.verdict is verdict)

    return standing.Said(
        step=one.step,
        control=one.control,
        candidate=one.candidate,
        verdict=one.verdict,
        outcome=one.outcome,
        waits_for=one.blocked_by,
        failed=gates(Verdict.FAIL),
        open=gates(Verdict.INCONCLUSIVE),
        control_setup=arms[one.control],
        candidate_setup=arms[one.candidate],
        compared=compared,
        replayed_at=replayed_at,
    )


def replayed(decision: standing.DecisionRecord) -> tuple[standing.Day, ...]:
    """Return the day on which a decision was requested for each step's arms.

    Deciding once more on another day makes no day of it; nor does a replay that has no date.
    """
    found = {
        (said.control, said.candidate): standing.Day(
            day=said.replayed_at.astimezone(UTC).date(),
            control=said.control,
            candidate=said.candidate,
            pairs=said.compared,
            source="replay",
        )
        for said in decision.steps
        if said.compared and said.replayed_at
    }
    return tuple(found.values())


def live(folders: Iterable[Path]) -> Iterator[Observation]:
    """Yield what the shadow streams in ``folders`` hold."""
    from harness.shadow.log import files, records
    from harness.shadow.record import Observation

    for folder in folders:
        if not files(folder, Observation):
            raise BadFile(folder, "holds no shadow streams", "Name a folder that a shadow wrote")
        yield from records(folder, Observation)


def streamed(observations: Iterable[Observation], step: Step) -> tuple[standing.Day, ...]:
    """Count the pairs that a shadow of live queries compared, by day (UTC), for ``step``."""
    pairs: Counter[date] = Counter()
    for seen in observations:
        if not seen.compared or seen.control is None or seen.candidate is None:
            continue
        who = seen.control.served_by, seen.candidate.served_by
        if "" in who or who[0] == who[1]:
            raise EvidenceError(
                f"attempt {seen.number} of {seen.writer}: control and candidate are both"
                f" {who[0][:12] or 'unknown'}; a comparison of an engine with itself says"
                f" nothing about {step.name}"
            )
        pairs[datetime.fromtimestamp(seen.at // NANOSECONDS, UTC).date()] += 1
    return tuple(
        standing.Day(
            day=day,
            control=step.control,
            candidate=step.candidate,
            pairs=count,
            source="streams",
        )
        for day, count in sorted(pairs.items())
    )


LEDGER_FILE = "ledger.json"
FORMAT = 1
FIRST = "0" * 64
"""What the first entry holds in place of a digest."""
HINT = (
    "Bring the file back as it was (git, a copy); never edit it by hand. To go back to the"
    " old engine without it: harness migrate rollback --without-ledger VALUE"
)
HEAD = 1024
"""Bytes of the file that are looked at, to tell whether it is a ledger."""
KEYS = {"number", "previous", "event", "sha256"}
_EVENT: TypeAdapter[standing.Event] = TypeAdapter(standing.Event)


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger as it was read."""

    events: tuple[standing.Event, ...]
    head: str
    """Digest of the last entry; zeros where there is none."""

    @property
    def state(self) -> standing.MigrationState:
        """What the events add up to."""
        return standing.state_of(self.events)


def read(folder: Path) -> Ledger:
    """Read the ledger in ``folder``; one that is not there has no events."""
    path = folder / LEDGER_FILE
    try:
        whole = json_file(path)
    except FileNotFoundError:
        return Ledger((), FIRST)
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"is torn, or no ledger ({exc})", HINT) from exc
    if not isinstance(whole, dict) or set(whole) != {"format", "head", "entries"}:
        _wrong(path, "is not a ledger")
    if whole["format"] != FORMAT or not isinstance(whole["entries"], list):
        _wrong(path, f"is of format {whole['format']!r}, and this program reads {FORMAT}")
    events, head = [], FIRST
    for number, entry in enumerate(whole["entries"], start=1):
        events.append(_checked(path, number, entry, head))
        head = entry["sha256"]
    if whole["head"] != head:
        _wrong(path, f"ends with entry {len(events)}, which is not its last: some were taken out")
    try:
        if events:
            standing.state_of(events)
            check_past(events[-1].at)
    except EvidenceError as exc:
        raise BadFile(path, str(exc), HINT) from exc
    return Ledger(tuple(events), head)


def is_ledger(folder: Path) -> bool:
    """Return whether a migration began in a folder; its ledger may be torn."""
    try:
        with opened(folder / LEDGER_FILE) as file:
            return b'"entries"' in file.read(HEAD)
    except (OSError, Malformed):
        return False


def _checked(path: Path, number: int, entry: Any, previous: str) -> standing.Event:  # noqa: ANN401  of JSON
    """Return the event of an entry that holds the one before it."""
    if not isinstance(entry, dict) or set(entry) != KEYS:
        _wrong(path, f"entry {number} is invalid")
    if entry["number"] != number or entry["previous"] != previous:
        _wrong(path, f"entry {number} does not follow the one before it: some were moved or cut")
    if entry["sha256"] != _sha256(entry):
        _wrong(path, f"entry {number} was changed since it was written")
    try:
        return _EVENT.validate_json(json.dumps(entry["event"]))
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        _wrong(path, f"entry {number}: {where}: {first['msg']}")


def added(known: Ledger, event: standing.Event) -> Ledger:
    """Return the ledger with one more event."""
    events = (*known.events, event)
    standing.state_of(events)
    return Ledger(events, _entry(len(events), known.head, event)["sha256"])


def ledger_text(ledger: Ledger) -> str:
    """Return the file that ``read`` reads."""
    entries: list[dict[str, Any]] = []
    head = FIRST
    for number, one in enumerate(ledger.events, start=1):
        entries.append(_entry(number, head, one))
        head = entries[-1]["sha256"]
    return json_text({"format": FORMAT, "head": head, "entries": entries})


def add(
    folder: Path,
    event: standing.Event,
    *,
    after: str,
    before: Mapping[Path, str] = MappingProxyType({}),
) -> Ledger:
    """Add an event to the ledger whose head was ``after`` when it was read.

    ``before`` are files of the folder that change with it, and before it.
    """
    with changing(folder / LEDGER_FILE, within=[folder], what=event.kind) as change:
        known = read(folder)
        if known.head != after:
            raise EvidenceError(
                f"{folder / LEDGER_FILE}: somebody else wrote to it since it was read. Look at"
                " harness migrate status, and run the command again"
            )
        made = added(known, event)
        for path, text in before.items():
            change.write(path, text)
        change.write(folder / LEDGER_FILE, ledger_text(made))
        return made


def _entry(number: int, previous: str, event: standing.Event) -> dict[str, Any]:
    entry = {"number": number, "previous": previous, "event": event.model_dump(mode="json")}
    return {**entry, "sha256": _sha256(entry)}


def _sha256(entry: Mapping[str, Any]) -> str:
    return digest.of_json([entry["number"], entry["previous"], entry["event"]])


def _wrong(path: Path, problem: str) -> NoReturn:
    raise BadFile(path, problem, HINT)


def interleave(
    folder: Path, arms: tuple[str, ...], *, reason: str, now: datetime, by: str
) -> standing.MigrationState:
    """Note in the ledger that lists are mixed from these arms, or from none."""
    if len(arms) == 1 or len({*arms}) != len(arms):
        raise EvidenceError("name two arms or more, each once, the one that serves first")
    if not folder.is_dir():
        _ = read(folder).state
    with changing(folder / LEDGER_FILE, within=[folder], what="interleave") as change:
        event = standing.Interleaved(at=now, by=by, arms=arms, reason=reason)
        made = added(read(folder), event)
        change.write(folder / LEDGER_FILE, ledger_text(made))
    return made.state


class Switch:
    """Says whether lists may be mixed now; the ledger is read again after it was replaced."""

    def __init__(self, folder: Path, arms: tuple[str, ...]) -> None:
        self._folder, self._arms = folder, arms
        self._seen: tuple[int, int] | None = None
        self._on = False

    def __call__(self) -> bool:
        """Return whether it is on for these very arms; a ledger that cannot be read is off."""
        try:
            about = (self._folder / LEDGER_FILE).stat()
            seen = about.st_mtime_ns, about.st_ino
            if seen != self._seen:
                event = read(self._folder).state.interleaved
                self._on = event is not None and event.arms == self._arms
                self._seen = seen
        except (OSError, BadFile, EvidenceError):
            self._seen, self._on = None, False
        return self._on
