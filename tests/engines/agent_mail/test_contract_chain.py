"""Which engine answers: the chains of section 1.2, the kill switch, and what is said of a fall."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engines.contract import (
    EngineError,
    FeatureUnavailable,
    IndexUnavailable,
    InvalidQuery,
    SearchError,
)
from engines.stacks.agent_mail.contract import Event, SearchMode, SearchQuery
from engines.stacks.agent_mail.pipeline.plan import MODE_OF, FallbackTier, KillSwitch, engine_chain
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail.messages import some_mail

LEXICAL = [FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE]
CHAINS = {
    SearchMode.HYBRID_RERANK: [FallbackTier.RERANK, FallbackTier.HYBRID, *LEXICAL],
    SearchMode.HYBRID: [FallbackTier.HYBRID, *LEXICAL],
    SearchMode.SEMANTIC: [FallbackTier.SEMANTIC, *LEXICAL],
    SearchMode.LEXICAL: LEXICAL,
}
STEPS = [(mode, at) for mode, tiers in CHAINS.items() for at in range(len(tiers))]
TEXT = "deployment review"


@pytest.fixture(scope="module")
def mail(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("chain")
    build(folder, some_mail(52, 80).messages)
    with whole(folder) as made:
        yield made


@pytest.mark.parametrize(("mode", "at"), STEPS)
def test_what_is_missing_gives_way_to_the_next(mail: Whole, mode: SearchMode, at: int) -> None:
    tiers = CHAINS[mode]
    mail.log.events.clear()
    found = mail.without(*tiers[:at]).ask(SearchQuery(TEXT, mode=mode))
    explain = found.explain
    assert found.hits
    assert (explain.engine, found.served_by) == (tiers[at], tiers[at])
    assert (explain.requested_mode, explain.actual_mode) == (mode, MODE_OF[tiers[at]])
    fell = MODE_OF[tiers[at]] is not mode
    assert explain.mode_downgraded == fell
    assert (explain.downgrade_reason is not None) == fell
    told = [payload for event, payload in mail.log.events if event is Event.MODE_DOWNGRADE]
    assert len(told) == fell
    for payload in told:
        assert payload == {
            "requested": mode,
            "actual": explain.actual_mode,
            "reason": explain.downgrade_reason,
        }
    assert all(tier in explain.note for tier in tiers[:at])


@pytest.mark.parametrize("mode", SearchMode)
def test_without_any_engine_the_answer_is_empty_and_no_error(mail: Whole, mode: SearchMode) -> None:
    found = mail.without(*FallbackTier).ask(SearchQuery(TEXT, mode=mode))
    assert (found.hits, found.next_cursor) == ((), None)
    assert all(tier in found.explain.note for tier in CHAINS[mode])


@pytest.mark.parametrize("mode", SearchMode)
def test_unset_leaves_each_mode_its_own_chain_and_so_does_tantivy(mode: SearchMode) -> None:
    for switch in (None, KillSwitch.TANTIVY):
        assert list(engine_chain(mode, switch)) == CHAINS[mode]


@pytest.mark.parametrize("mode", SearchMode)
def test_fts5_is_forced_and_the_loss_of_a_mode_is_said(mail: Whole, mode: SearchMode) -> None:
    found = mail.under(KillSwitch.FTS5).ask(SearchQuery(TEXT, mode=mode))
    assert (found.explain.engine, found.explain.actual_mode) == ("fts5", "lexical")
    assert found.explain.mode_downgraded == (mode is not SearchMode.LEXICAL)


def test_auto_selects_by_what_is_there(mail: Whole) -> None:
    def engine(served: Whole) -> str:
        return served.ask(SearchQuery(TEXT)).explain.engine

    assert engine(mail) == "tantivy"
    assert engine(mail.without(FallbackTier.TANTIVY)) == "fts5"


def test_the_four_kinds_of_failure_are_of_one_family() -> None:
    kinds = {InvalidQuery, IndexUnavailable, EngineError, FeatureUnavailable}
    assert set(SearchError.__subclasses__()) == kinds
    for kind in kinds:
        assert str(kind("in words")) == "in words"


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("text", ["", " \t", "\0"])
def test_nothing_asked_is_nothing_found_in_every_mode(
    mail: Whole, mode: SearchMode, text: str
) -> None:
    found = mail.ask(SearchQuery(text, mode=mode))
    assert found.hits == ()
    assert "the query is empty" in found.explain.note
    assert not found.explain.mode_downgraded


@pytest.mark.parametrize("mode", SearchMode)
def test_a_filter_alone_is_answered_in_every_mode(mail: Whole, mode: SearchMode) -> None:
    wanted = mail.ids(SearchQuery("", ack_required=True, limit=1_000))
    assert mail.ids(SearchQuery("", mode=mode, ack_required=True, limit=1_000)) == wanted != []
