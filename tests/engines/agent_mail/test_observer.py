"""Who looks on under SEARCH_ENGINE=shadow is told what was served, and is seen by nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn, cast

import pytest

from engines.contract import EngineError
from engines.stacks.agent_mail.contract import DocKind, MailEngine, SearchQuery, SearchResponse
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from engines.stacks.agent_mail.pipeline.scope import Scope, unrestricted, viewer
from engines.stacks.agent_mail.service import ShadowObserver
from engines.stacks.agent_mail.views import StoredViews
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.messages import some_mail

QUERY = SearchQuery("deployment review br-2tnl", limit=7)


@dataclass
class Notes:
    """Keeps what it is told, and may fail at it."""

    fails: bool = False
    told: list[tuple[SearchQuery, SearchResponse, int]] = field(default_factory=list)

    def served(self, query: SearchQuery, search_response: SearchResponse, elapsed_ns: int) -> None:
        self.told.append((query, search_response, elapsed_ns))
        if self.fails:
            raise RuntimeError("no room to write")


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("beside")
    build(folder, some_mail(56, 120).messages)
    with whole(folder) as made:
        yield made


def seen_by(
    mail: Whole, observer: ShadowObserver, switch: KillSwitch | None = KillSwitch.SHADOW
) -> Whole:
    return replace(mail, service=replace(mail.service, switch=switch, observer=observer))


def test_it_is_told_the_question_and_the_very_answer(mail: Whole) -> None:
    notes = Notes()
    answer = seen_by(mail, notes).ask(QUERY)
    ((query, found, elapsed_ns),) = notes.told
    assert query is QUERY
    assert found is answer
    assert 0 < elapsed_ns // 1000 <= answer.explain.timing.total_us
    assert answer.hits == mail.under(KillSwitch.FTS5).ask(QUERY).hits != ()


def test_its_failure_reaches_nobody(mail: Whole) -> None:
    notes = Notes(fails=True)
    answer = seen_by(mail, notes).ask(QUERY)
    assert notes.told
    assert answer.hits == mail.under(KillSwitch.FTS5).ask(QUERY).hits


@dataclass
class Slow:
    """Stands for a shadow that takes long: whoever asks it waits."""

    name = "tantivy"
    times: int = 0

    def search(self, *_: object) -> NoReturn:
        self.times += 1
        raise EngineError("past all patience")


def with_shadow(mail: Whole, shadow: Slow) -> Whole:
    """Put a shadow in Tantivy's place, for everyone."""

    def slowed(engines: Mapping[FallbackTier, MailEngine]) -> Mapping[FallbackTier, MailEngine]:
        return {**engines, FallbackTier.TANTIVY: cast("MailEngine", shadow)}

    made = mail.service
    engines = slowed(made.tiers.lexical)
    views = StoredViews(mail.store, lambda *_: engines, lambda _: {})
    tiers = replace(made.tiers, lexical=engines)
    return replace(mail, service=replace(made, tiers=tiers, views=views.of))


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("scope", [None, viewer("Ann", frozenset({1}), frozenset())])
def test_no_caller_waits_for_the_shadow(mail: Whole, scope: Scope | None, *, explain: bool) -> None:
    shadow = Slow()
    here = with_shadow(mail, shadow)
    query = replace(QUERY, explain=explain)
    waits = explain and scope is None
    assert seen_by(here, Notes()).ask(query, scope).explain.shadow is None
    assert shadow.times == waits
    here.under(KillSwitch.SHADOW).ask(query, scope)
    assert shadow.times == waits + 1


def test_who_asks_for_explain_is_told_how_the_shadow_answers(mail: Whole) -> None:
    told = seen_by(mail, Notes()).ask(replace(QUERY, explain=True)).explain.shadow
    assert told is not None
    assert told == mail.under(KillSwitch.SHADOW).ask(QUERY).explain.shadow


def test_what_the_shadow_cannot_be_asked_is_not_told(mail: Whole) -> None:
    notes = Notes()
    here = seen_by(mail, notes)
    first = here.ask(QUERY)
    notes.told.clear()
    here.ask(replace(QUERY, cursor=first.next_cursor))
    here.ask(replace(QUERY, doc_kind=DocKind.AGENT))
    here.ask(QUERY, unrestricted())
    assert notes.told == []
    here.ask(replace(QUERY, cursor="no token"))
    assert len(notes.told) == 1


@pytest.mark.parametrize("switch", [None, *sorted(set(KillSwitch) - {KillSwitch.SHADOW})])
def test_under_another_switch_nothing_is_told(mail: Whole, switch: KillSwitch | None) -> None:
    notes = Notes()
    seen_by(mail, notes, switch).ask(QUERY)
    assert notes.told == []
