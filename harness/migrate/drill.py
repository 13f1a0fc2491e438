"""The drill: walk the way back while the service runs."""

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
    times_ns: list[int] = []
    way = state.before, state.switch
    passed, said = False, "it was interrupted"
    try:
        for taken_ns in _walk(folder, known.head, service, questions, way, clock, patience_ns):
            times_ns.append(taken_ns)  # noqa: PERF402  those before a failure are kept
        by_whom = " and ".join(f"{value} by {service.who(value).shown}" for value in way)
        said = f"{many(len(questions), 'query was')} answered under {by_whom}"
        passed = True
    except _NotProvenError as exc:
        said = str(exc)
    except Exception as exc:  # noqa: BLE001  whatever the service raises fails the drill
        said = f"{type(exc).__name__}: {exc}"
    finally:
        back_ns, forth_ns, *_ = *times_ns, 0, 0
        event = Drilled(
            at=clock.today(),
            by=by,
            step=state.step,
            old=state.before,
            new=state.switch,
            passed=passed,
            said=said,
            questions=len(questions),
            back_ns=back_ns,
            forth_ns=forth_ns,
        )
        value, why = "" if passed else state.before, f"the drill of {state.step} failed"
        ledger.add(folder, event, after=known.head, value=value, why=why)
    return event


def _walk(  # noqa: PLR0917  all of it is the drill
    folder: Path,
    head: str,
    service: Service,
    questions: Sequence[str],
    way: tuple[str, str],
    clock: DrillClock,
    patience_ns: int,
) -> Iterator[int]:
    """Set the switch back and forth; yield the time to the first own answer under each value."""

    def check(found: Answerer, value: str, when: str) -> None:
        if found != (meant := service.who(value)):
            problem = f"{when}, {found.shown} answered, and {meant.shown} is meant to"
            raise _NotProvenError(problem)

    def prove(value: str, when: str) -> None:
        for question in questions:
            check(service.ask(question), value, when)

    old, new = way
    if service.who(old).fingerprint == service.who(new).fingerprint:
        raise _NotProvenError(f"{old} and {new} sign alike, so no answer can tell them apart")
    prove(new, "before the drill")
    for value in way:
        with held(folder / ledger.LEDGER_FILE):
            if ledger.read(folder).head != head:
                raise _NotProvenError("somebody else wrote to the ledger meanwhile")
            ledger.write(folder, value, why=f"a drill under way, set to {value}")
        start, when = clock.elapsed_ns(), f"after the switch to {value}"
        while (found := service.ask(questions[0])) != service.who(value):
            if clock.elapsed_ns() - start > patience_ns:
                check(found, value, when)
            clock.rest()
        taken_ns = clock.elapsed_ns() - start
        prove(value, when)
        yield taken_ns


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
