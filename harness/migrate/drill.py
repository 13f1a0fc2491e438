"""The drill: walk the way back while the service runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from harness.core.errors import EvidenceError, UnknownName
from harness.core.files import held
from harness.core.folders import completed
from harness.core.printable import many
from harness.migrate import ledger
from harness.migrate.ledger import SWITCH_FILE
from harness.migrate.standing import Drilled
from harness.pipeline.layout import Layout
from harness.pipeline.mail import mail_service
from harness_engines.mcp_server import resolved
from harness_engines.stacks.agent_mail.mcp_tools.arguments import EVERY_PROJECT, InProject
from harness_engines.stacks.agent_mail.mcp_tools.server import MESSAGES, Surface
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch, SwitchFile
from harness_engines.stacks.remote import connected

PREFIX = 12


class Answerer(NamedTuple):
    """Who answered a query, or is meant to."""

    fingerprint: str
    engine: str

    @property
    def shown(self) -> str:
        """In a few letters."""
        return f"{self.engine} {self.fingerprint[:PREFIX]}"


class DrillClock(NamedTuple):
    """Time, handed in so that a test has its own."""

    today: Callable[[], datetime]
    """Aware of its zone."""
    elapsed_ns: Callable[[], int]
    """Never runs backwards."""
    rest: Callable[[], object]
    """Wait a little before the service is queried once more."""


class _NotProvenError(Exception):
    """The service did not do what the switch says."""


@dataclass(frozen=True, slots=True)
class Service:
    """The service under drill."""

    ask: Callable[[str], Answerer]
    """Asks one query, and gives who answered. Whatever it raises fails the drill."""
    who: Callable[[str], Answerer]
    """Gives who is meant to answer under a value of the switch."""


def drill(
    folder: Path,
    service: Service,
    questions: Sequence[str],
    *,
    by: str,
    clock: DrillClock,
    patience_ns: int,
) -> Drilled:
    """Drill the rollback of the step in force, and note what was seen.

    ``patience_ns`` is how long the service may take to follow the switch.
    """
    completed(folder / ledger.LEDGER_FILE, within=[folder])
    known = ledger.read(folder)
    state = known.state
    if not state.taken:
        raise EvidenceError("no step is in force, so there is nothing to take back")
    if not questions:
        raise EvidenceError("the query set is empty; name a data set with queries")
    old, new = state.before, state.switch
    walk = _Walk(folder, known.head, service, tuple(questions), clock, patience_ns)
    times: list[int] = []
    failed = "it was interrupted"
    try:
        walk.differ(old, new)
        walk.prove(new, "before the drill")
        times += [walk.switch_to(old)]
        times += [walk.switch_to(new)]
        failed = ""
    except _NotProvenError as exc:
        failed = str(exc)
    except Exception as exc:  # noqa: BLE001  whatever the service raises fails the drill
        failed = f"{type(exc).__name__}: {exc}"
    finally:
        back_ns, forth_ns, *_ = *times, 0, 0
        event = Drilled(
            at=clock.today(),
            by=by,
            step=state.step,
            old=old,
            new=new,
            passed=not failed,
            said=failed or walk.said(old, new),
            questions=len(questions),
            back_ns=back_ns,
            forth_ns=forth_ns,
        )
        why = f"the drill of {state.step} failed"
        back = {folder / ledger.SWITCH_FILE: ledger.switch_text(old, why=why)} if failed else {}
        ledger.add(folder, event, after=known.head, before=back)
    return event


class _Walk(NamedTuple):
    """The steps of a drill."""

    folder: Path
    head: str
    """Of the ledger when the drill began: who moves meanwhile has the switch to himself."""
    service: Service
    questions: tuple[str, ...]
    clock: DrillClock
    patience_ns: int

    def differ(self, old: str, new: str) -> None:
        """Refuse a drill that could prove nothing."""
        if self.service.who(old).fingerprint == self.service.who(new).fingerprint:
            raise _NotProvenError(f"{old} and {new} sign alike, so no answer can tell them apart")

    def switch_to(self, value: str) -> int:
        """Set the switch, wait for the service to follow, ask it everything, and time its first."""
        with held(self.folder / ledger.LEDGER_FILE):
            if ledger.read(self.folder).head != self.head:
                raise _NotProvenError("somebody else wrote to the ledger meanwhile")
            ledger.write(self.folder, value, why=f"a drill under way, set to {value}")
        start = self.clock.elapsed_ns()
        while True:
            found = self.service.ask(self.questions[0])
            taken = self.clock.elapsed_ns() - start
            if found == self.service.who(value):
                self.prove(value, f"after the switch to {value}")
                return taken
            if taken > self.patience_ns:
                raise _NotProvenError(self._strange(found, value, f"after the switch to {value}"))
            self.clock.rest()

    def prove(self, value: str, when: str) -> None:
        """Ask every question; each answer must be signed by the engine of ``value``."""
        for question in self.questions:
            found = self.service.ask(question)
            if found != self.service.who(value):
                raise _NotProvenError(self._strange(found, value, when))

    def said(self, old: str, new: str) -> str:
        """Describe what was proven."""
        sides = " and ".join(f"{v} by {self.service.who(v).shown}" for v in (old, new))
        return f"{many(len(self.questions), 'query was')} answered under {sides}"

    def _strange(self, found: Answerer, value: str, when: str) -> str:
        meant = self.service.who(value)
        return f"{when}, {found.shown} answered, and {meant.shown} is meant to"


SHOWN = 10
"""Messages of a query: a page."""


@contextmanager
def opened(
    layout: Layout, arm: str, cache: Path, folder: Path, *, url: str, timeout_s: float
) -> Iterator[Service]:
    """Open the arm in this process, over the switch in ``folder``; or ask the server at ``url``."""
    with mail_service(layout, arm, cache, SwitchFile(folder / SWITCH_FILE).read) as here:
        if not url:
            yield Service(lambda text: _asked(here, text), lambda value: _meant(here, value))
            return
        with connected([], url, timeout_s) as to:

            def ask(text: str) -> Answerer:
                found = to.call(MESSAGES, _given(here, text))
                by = found.get("served_by")
                if not isinstance(by, dict) or not {"fingerprint", "engine"} <= by.keys():
                    raise EvidenceError(f"{to.server}: does not say who answered")
                return Answerer(str(by["fingerprint"]), str(by["engine"]))

            yield Service(ask, lambda value: _meant(here, value))


def _asked(service: Surface, text: str) -> Answerer:
    by = service.now.search(resolved(InProject, _given(service, text))).served_by
    return Answerer(by.fingerprint, by.engine)


def _given(service: Surface, text: str) -> dict[str, object]:
    """Write a query in the arm's own mode."""
    mode = service.mode.value
    return {"project_key": EVERY_PROJECT, "query": text, "limit": SHOWN, "mode": mode}


def _meant(service: Surface, value: str) -> Answerer:
    switch = KillSwitch.read(value)
    if switch is None:
        raise UnknownName("SEARCH_ENGINE", value, [known.value for known in KillSwitch])
    return Answerer(*service.who(switch))
