"""The ledger of a migration, its kill switch, what its events rest on, and the moves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from harness.agreement import UNCOMPARED
from harness.core import digest
from harness.core.errors import BadFile, EvidenceError, HarnessError
from harness.core.files import json_text, write_text
from harness.core.folders import FileChange, changing, cut_off
from harness.core.formats import json_file, moment_of
from harness.core.gate import StepDecision, Verdict
from harness.core.reading import Malformed, opened
from harness.migrate import standing
from harness.pipeline.gate import read_decision
from harness.pipeline.layout import Layout
from harness.policy.model import Policy, Step
from harness.policy.validity import check_past
from harness_engines.stacks.agent_mail.pipeline.plan import NAME, value_in

if TYPE_CHECKING:
    from harness.shadow.record import Observation

SWITCH_FILE = "switch.env"


def write(folder: Path, value: str, *, why: str) -> None:
    """Set the switch, and see it on the disk; ``why`` is a comment for whoever reads the file."""
    write_text(folder / SWITCH_FILE, switch_text(value, why), durable=True)


def switch_text(value: str, why: str) -> str:
    """Return the file that sets the switch."""
    return f"# harness migrate: {' '.join(why.split())}\n{NAME}={value}\n"


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
    raced_at = about["latency"]["raced_at"] if about["latency"] else None
    try:
        return standing.DecisionRecord(
            sha256=digest.of_file(layout.decision),
            decided_at=decided_at,
            raced_at=moment_of(raced_at) if raced_at else None,
            policy_sha256=about["policy"]["sha256"],
            steps=tuple(_said(one, about) for one in decisions),
        )
    except (Malformed, ValidationError) as exc:
        said = exc.errors()[0]["msg"] if isinstance(exc, ValidationError) else exc
        hint = layout.remedy(Layout.decision)
        raise BadFile(layout.decision, f"it is not what was decided ({said})", hint) from exc


def _said(one: StepDecision, about: Mapping[str, Any]) -> standing.Said:
    """Take what a migration rests on out of the decision of a step."""
    of, replays = about["provenance"]["arms"], about["provenance"].get("replayed_at", {})
    setup = {
        arm: digest.of_json([of[arm][key] for key in SETUP]) for arm in (one.control, one.candidate)
    }
    compared = [row["agreement"] for row in about["comparisons"] if row["name"] == one.step]
    classes = compared[-1]["classes"] if compared else {}

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
        control_setup=setup[one.control],
        candidate_setup=setup[one.candidate],
        compared=sum(count for name, count in classes.items() if name not in UNCOMPARED),
        replayed_at=min(moment_of(replays[arm]) for arm in setup)
        if setup.keys() <= replays.keys()
        else None,
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
    arms = {"control": step.control, "candidate": step.candidate}
    return tuple(
        standing.Day(day=day, pairs=count, source="streams", **arms)
        for day, count in sorted(pairs.items())
    )


LEDGER_FILE = "ledger.json"
FORMAT = 1
FIRST = "0" * 64
"""What the first entry holds in place of a digest."""
HINT = (
    "Bring the file back as it was (git, a copy); never edit it by hand. To go back to the old"
    f" engine without it, write {NAME}=VALUE into {SWITCH_FILE}"
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

    @property
    def why(self) -> str:
        """Describe in the switch file what set it: the step in force and the entry."""
        step = self.state.step or standing.START
        return f"{step}, entry {len(self.events)} of {LEDGER_FILE}, {self.head[:12]}"


def read(folder: Path) -> Ledger:
    """Read the ledger in ``folder``; one that is not there has no events."""
    path = folder / LEDGER_FILE
    try:
        whole = json_file(path)
    except FileNotFoundError:
        return Ledger((), FIRST)
    except (OSError, ValueError) as exc:
        raise BadFile(path, f"is torn, or no ledger ({exc})", HINT) from exc
    try:
        return _checked(whole)
    except EvidenceError as exc:
        raise BadFile(path, str(exc), HINT) from exc


def _checked(whole: Any) -> Ledger:  # noqa: ANN401  any JSON
    """Check that each entry holds the digest of the one before it, and the file the last."""
    if not isinstance(whole, dict) or set(whole) != {"format", "head", "entries"}:
        raise EvidenceError("is not a ledger")
    if whole["format"] != FORMAT or not isinstance(whole["entries"], list):
        raise EvidenceError(f"is of format {whole['format']!r}, and this program reads {FORMAT}")
    events: list[standing.Event] = []
    head = FIRST
    for number, entry in enumerate(whole["entries"], start=1):
        if not isinstance(entry, dict) or set(entry) != KEYS:
            raise EvidenceError(f"entry {number} is invalid")
        if entry["number"] != number or entry["previous"] != head:
            raise EvidenceError(
                f"entry {number} does not follow the one before it: some were moved or cut"
            )
        if entry["sha256"] != _sha256(entry):
            raise EvidenceError(f"entry {number} was changed since it was written")
        try:
            events.append(_EVENT.validate_json(json.dumps(entry["event"])))
        except ValidationError as exc:
            first = exc.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            raise EvidenceError(f"entry {number}: {where}: {first['msg']}") from exc
        head = entry["sha256"]
    if whole["head"] != head:
        raise EvidenceError(
            f"ends with entry {len(events)}, which is not its last: some were taken out"
        )
    if events:
        standing.state_of(events)
        check_past(events[-1].at)
    return Ledger(tuple(events), head)


def is_ledger(folder: Path) -> bool:
    """Return whether a migration began in a folder; its ledger may be torn."""
    try:
        with opened(folder / LEDGER_FILE) as file:
            return b'"entries"' in file.read(HEAD)
    except (OSError, Malformed):
        return False


class Move:
    """A move: the ledger, the event that is added to it, and the switch that goes with it."""

    def __init__(self, folder: Path, change: FileChange) -> None:
        self._folder, self._change = folder, change
        self.ledger = read(folder)
        self.resumed = change.resumed
        """The move that had been cut off and was completed; empty where there was none."""
        self.hindrances: tuple[str, ...] = ()
        """What blocks a step that was not taken."""

    @property
    def state(self) -> standing.MigrationState:
        """What the events add up to."""
        return self.ledger.state

    def add(self, event: standing.Event, value: str = "", why: str = "") -> None:
        """Add an event, and give the switch a value; both files change, or neither does.

        The way back is open first, and noted then; the way forth is noted first.
        """
        events = (*self.ledger.events, event)
        standing.state_of(events)
        entries: list[dict[str, Any]] = []
        head = FIRST
        for number, one in enumerate(events, start=1):
            entry = {"number": number, "previous": head, "event": one.model_dump(mode="json")}
            head = _sha256(entry)
            entries.append({**entry, "sha256": head})
        self.ledger = Ledger(events, head)
        text = json_text({"format": FORMAT, "head": head, "entries": entries})
        files = {LEDGER_FILE: text}
        if value:
            files[SWITCH_FILE] = switch_text(value, why or self.ledger.why)
        back = isinstance(event, standing.RolledBack | standing.Drilled)
        for name in sorted(files, reverse=back):  # "ledger.json" comes before "switch.env"
            self._change.write(self._folder / name, files[name])


@contextmanager
def moving(folder: Path, what: str, *, begins: bool = False) -> Iterator[Move]:
    """Lock the ledger, complete a move that was cut off, and make one.

    Where no migration has begun, no folder is made, if the move does not begin one.
    """
    if not (begins or folder.is_dir()):
        _ = read(folder).state
    with changing(folder / LEDGER_FILE, within=[folder], what=what) as change:
        yield Move(folder, change)


def add(
    folder: Path, event: standing.Event, *, after: str, value: str = "", why: str = ""
) -> Ledger:
    """Add an event to the ledger whose head was ``after`` when it was read."""
    with moving(folder, event.kind, begins=True) as move:
        if move.ledger.head != after:
            raise EvidenceError(
                f"{folder / LEDGER_FILE}: somebody else wrote to it since it was read. Look at"
                " harness migrate status, and run the command again"
            )
        move.add(event, value, why)
        return move.ledger


def _sha256(entry: Mapping[str, Any]) -> str:
    return digest.of_json([entry["number"], entry["previous"], entry["event"]])


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


BEGIN, OBSERVE, ADVANCE, ROLLBACK = "begin", "observe", "advance", "rollback"


def begin(folder: Path, policy: Policy, value: str, *, now: datetime, by: str) -> Move:
    """Begin a migration in ``folder``; ``value`` of the switch leaves the old engine in place."""
    check_switches(policy)
    with moving(folder, BEGIN, begins=True) as move:
        if move.resumed != BEGIN:
            event = standing.Begun(at=now, by=by, policy=policy.name, switch=value)
            move.add(event, value, "before the first step")
        return move


def check_switches(policy: Policy) -> None:
    """Check that all steps of a policy can be taken."""
    if without := [step.name for step in policy.steps if step.switch is None]:
        raise EvidenceError(
            f"the policy {policy.name!r} names no switch for {', '.join(without)}, so they could"
            " never be taken; write switch = ... in each [[step]]"
        )


def look(
    folder: Path, policy: Policy, evidence: standing.CurrentDecision, *, now: datetime
) -> standing.MigrationDay:
    """Return where the migration stands; nothing is written."""
    state = read(folder).state
    found = standing.standing(state, policy, evidence, now=now)
    why = drift(folder, state.switch)
    if cut_off(folder / LEDGER_FILE):
        why = f"{folder / LEDGER_FILE}: a move was cut off. Repeat its command, which completes it"
    elif why:
        why += f". Set it again: harness migrate rollback --step {state.step or standing.START}"
    if not why:
        return found
    urgent = sum(ask.action is standing.Action.ROLLBACK for ask in found.asks)
    again = standing.Ask(standing.Action.SWITCH, why)
    return replace(found, asks=(*found.asks[:urgent], again, *found.asks[urgent:]))


def observe(
    folder: Path,
    evidence: standing.CurrentDecision,
    days: tuple[standing.Day, ...],
    *,
    now: datetime,
    by: str,
) -> standing.Observed | None:
    """Note the decision at hand, and the days given; None where all of it was known."""
    if evidence.refused:
        raise EvidenceError(evidence.refused)
    with moving(folder, OBSERVE) as move:
        state = move.state
        decision = None if evidence.decision in state.decisions else evidence.decision
        seen = (*(replayed(decision) if decision else ()), *days)
        fresh = tuple(day for day in seen if day not in state.days)
        latest = max((day.day for day in fresh), default=None)
        if latest and latest > now.astimezone(UTC).date():
            raise EvidenceError(f"evidence of {latest} is from the future; correct the clock")
        if decision is None and not fresh:
            return None
        event = standing.Observed(at=now, by=by, decision=decision, days=fresh)
        move.add(event)
        return event


def advance(
    folder: Path,
    policy: Policy,
    evidence: standing.CurrentDecision,
    *,
    now: datetime,
    by: str,
    reason: str,
) -> Move:
    """Take the next step; nothing is done where anything stands in its way.

    With a ``reason``, the step is taken all the same; what stood in its way is kept for ever.
    """
    with moving(folder, ADVANCE) as move:
        if move.resumed == ADVANCE:
            return move
        found = standing.standing(move.state, policy, evidence, now=now)
        if found.next is None:
            raise EvidenceError(found.hindrances[0])
        value = found.next.switch
        if value is None or (found.hindrances and not reason):
            move.hindrances = found.hindrances
            return move
        event = standing.Advanced(
            at=now,
            by=by,
            step=found.next.name,
            switch=value,
            decision=evidence.decision,
            overridden=found.hindrances,
            reason=reason if found.hindrances else "",
        )
        move.add(event, value)
        return move


def rollback(folder: Path, *, to: str, reason: str, now: datetime, by: str) -> Move:
    """Take steps back, at once and whatever the evidence says.

    ``to`` names the step to go back to, ``start`` the state before the first; empty goes one back.
    """
    with moving(folder, ROLLBACK) as move:
        if move.resumed != ROLLBACK:
            state = move.state
            values = {"": state.start, **{one.step: one.switch for one in state.taken}}
            steps = list(values)
            target = "" if to == standing.START else to or steps[max(0, len(steps) - 2)]
            if target not in values:
                there = ", ".join([standing.START, *steps[1:]])
                raise EvidenceError(f"the step {target} is not in force; there is {there}")
            value = values[target]
            event = standing.RolledBack(at=now, by=by, to=target, switch=value, reason=reason)
            move.add(event, value, f"rolled back to {target or standing.START}")
        return move


def interleave(
    folder: Path, arms: tuple[str, ...], *, reason: str, now: datetime, by: str
) -> standing.MigrationState:
    """Note in the ledger that lists are mixed from these arms, or from none."""
    if len(arms) == 1 or len({*arms}) != len(arms):
        raise EvidenceError("name two arms or more, each once, the one that serves first")
    with moving(folder, "interleave") as move:
        move.add(standing.Interleaved(at=now, by=by, arms=arms, reason=reason))
        return move.state
