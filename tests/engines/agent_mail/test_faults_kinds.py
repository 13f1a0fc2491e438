"""The four kinds of error at every tier, and what the service makes of each (section 9.2)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NoReturn

import pytest

from engines.contract import (
    EngineError,
    FeatureUnavailable,
    IndexUnavailable,
    InvalidQuery,
    SearchError,
)
from engines.stacks.agent_mail.contract import (
    CandidateList,
    Event,
    Filters,
    MailEngine,
    RankingMode,
    SearchMode,
    SearchQuery,
)
from engines.stacks.agent_mail.pipeline import faults
from engines.stacks.agent_mail.pipeline.plan import MODE_OF, FallbackTier
from engines.stacks.agent_mail.pipeline.retrievers import Nearest, Unavailable, or_unavailable
from engines.stacks.agent_mail.service import MailSearch
from harness.core.errors import ModelNotReady
from tests.engines.agent_mail.fakes import Counting, Failing, Log, message, service
from tests.engines.agent_mail.faults_case import CHAINS, LEXICAL, NEEDS, Panic, Raises, Scores

MESSAGES = [message(1, "deploy failed"), message(2, "deploy deploy done"), message(3, "lunch")]
SHOWN = [2, 1]
FALLS = (IndexUnavailable, EngineError, FeatureUnavailable)
STEPS = [(mode, at) for mode, tiers in CHAINS.items() for at in range(len(tiers) - 1)]
"""Each tier of each chain that has one below it."""


def broken(errors: Mapping[str, BaseException], log: Log) -> MailSearch:
    """Make a service whose parts raise what stands at their names; all others answer."""
    lexical: dict[FallbackTier, MailEngine] = {
        tier: Failing(tier, errors[tier]) if tier in errors else Counting(tier, MESSAGES)
        for tier in LEXICAL
    }
    return service(
        MESSAGES,
        lexical=lexical,
        semantic=Raises(errors["vectors"]) if "vectors" in errors else Near(),
        reranker=Raises(errors["reranker"]) if "reranker" in errors else Scores(),
        log=log,
    )


class Near:
    """Finds by meaning what ``Counting`` finds by words."""

    def search(self, text: str, filters: Filters, depth: int) -> CandidateList:
        return Counting("vector", MESSAGES).search(text, filters, RankingMode.RELEVANCE, depth)


def part(tier: FallbackTier) -> str:
    """Name the part whose failure is the tier's, and not of those below it."""
    return {
        FallbackTier.RERANK: "reranker",
        FallbackTier.HYBRID: "vectors",
        FallbackTier.SEMANTIC: "vectors",
    }.get(tier, tier.value)


@pytest.mark.parametrize(("mode", "at"), STEPS)
@pytest.mark.parametrize("kind", FALLS)
def test_a_failure_at_any_tier_gives_way_to_the_next_and_is_named(
    kind: type[SearchError], mode: SearchMode, at: int
) -> None:
    tiers, log = CHAINS[mode], Log()
    errors = {part(tier): kind("the disk is full") for tier in tiers[: at + 1]}
    found = broken(errors, log).search(SearchQuery("deploy", mode=mode))
    by = tiers[at + 1]
    assert not NEEDS[by] & errors.keys()
    assert [hit.message_id for hit in found.hits] == SHOWN
    assert (found.served_by, found.explain.engine) == (by, by)
    assert found.explain.actual_mode == MODE_OF[by]
    said = [one for one in found.explain.note.split("; ") if "the disk is full" in one]
    assert [one.split(":")[0] for one in said] == list(tiers[: at + 1])
    assert found.explain.note.endswith(f"; answered by {by}")
    changed = MODE_OF[by] is not mode
    assert found.explain.mode_downgraded == changed
    assert [event for event, _ in log.events] == [
        Event.MODE_DOWNGRADE if changed else Event.ENGINE_FALLBACK
    ]


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("kind", FALLS)
def test_a_failure_of_all_is_an_empty_answer_that_names_each(
    kind: type[SearchError], mode: SearchMode
) -> None:
    errors = dict.fromkeys(("reranker", "vectors", *LEXICAL), kind("gone"))
    found = broken(errors, Log()).search(SearchQuery("deploy", mode=mode))
    assert (found.hits, found.next_cursor) == ((), None)
    assert found.explain.note.endswith("like: gone; nothing could answer")
    assert found.explain.note.count("gone") == len(CHAINS[mode])


@pytest.mark.parametrize(("mode", "at"), [*STEPS, *((m, len(c) - 1) for m, c in CHAINS.items())])
def test_a_question_that_is_none_for_one_tier_is_none_at_all(mode: SearchMode, at: int) -> None:
    tiers, log = CHAINS[mode], Log()
    errors: dict[str, BaseException] = {part(tier): EngineError("gone") for tier in tiers[:at]}
    errors[part(tiers[at])] = InvalidQuery("no text")
    found = broken(errors, log).search(SearchQuery("deploy", mode=mode))
    assert (found.hits, found.next_cursor) == ((), None)
    assert "no text" in found.explain.note
    assert found.explain.note.count("no text") == 1
    assert not found.explain.mode_downgraded
    assert log.events == []


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (IndexUnavailable("a"), IndexUnavailable, "a"),
        (InvalidQuery("b"), InvalidQuery, "b"),
        (ModelNotReady("no model"), FeatureUnavailable, "no model"),
        (ValueError("c"), EngineError, "ValueError: c"),
        (MemoryError(), EngineError, "MemoryError: "),
        (Panic("d"), EngineError, "Panic: d"),
    ],
)
def test_whatever_is_raised_is_one_of_the_four(
    raised: BaseException, kind: type[SearchError], said: str
) -> None:
    with pytest.raises(kind) as caught, faults.known():
        raise raised
    assert type(caught.value) is kind
    assert str(caught.value) == said


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_what_ends_a_program_is_no_fault(raised: BaseException) -> None:
    with pytest.raises(type(raised)), faults.known():
        raise raised
    halted = broken({"tantivy": raised}, Log())
    with pytest.raises(type(raised)):
        halted.search(SearchQuery("deploy"))


def test_a_leg_is_named_and_its_kind_stays() -> None:
    with pytest.raises(IndexUnavailable, match=r"^vectors: cut$"), faults.of_leg("vectors"):
        raise IndexUnavailable("cut")
    with pytest.raises(FeatureUnavailable, match=r"^vectors: absent$"), faults.of_leg("vectors"):
        raise ModelNotReady("absent")


def test_a_part_that_cannot_be_opened_says_why_whenever_it_is_asked() -> None:
    def failing(error: Exception) -> Nearest | None:
        def opening() -> NoReturn:
            raise error

        return or_unavailable(opening)

    assert failing(ModelNotReady("m")) == Unavailable(FeatureUnavailable, "m")
    assert failing(IndexUnavailable("i")) == Unavailable(IndexUnavailable, "i")
    assert or_unavailable(lambda: None) is None
    absent = Unavailable(IndexUnavailable, "cut")
    for _ in range(2):
        with pytest.raises(IndexUnavailable, match="cut"):
            absent.search("deploy")


def test_what_is_locked_is_not_read_once_for_each_message() -> None:
    asked: list[Sequence[int]] = []

    def locked(ids: Sequence[int]) -> NoReturn:
        asked.append(ids)
        cause = sqlite3.OperationalError("database is locked")
        cause.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise EngineError("message store: database is locked") from cause

    with pytest.raises(EngineError, match="locked"):
        faults.salvaged(locked, {})([1, 2, 3])
    assert asked == [[1, 2, 3]]


def test_messages_are_read_one_by_one_where_some_cannot_be() -> None:
    def hydrate(ids: Sequence[int]) -> dict[int, str]:
        if 2 in ids:
            raise IndexUnavailable("malformed")
        return {one: "read" for one in ids if one != 4}

    lost: dict[int, str] = {}
    read = faults.salvaged(hydrate, lost)
    assert read([1, 2, 3, 4]) == {1: "read", 3: "read"}
    assert lost == {2: "malformed"}
    with pytest.raises(IndexUnavailable, match="malformed"):
        read([2])
