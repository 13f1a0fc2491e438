"""The four phases of the migration over real engines, each by its value of SEARCH_ENGINE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from engines.contract import IndexUnavailable
from engines.stacks.agent_mail.contract import (
    Filters,
    RankingMode,
    SearchMode,
    SearchQuery,
)
from engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from engines.stacks.agent_mail.pipeline.retrievers import Semantic
from engines.stacks.agent_mail.sqlite.search import Fts5Engine
from engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine
from engines.vector import amvi
from engines.vector.bulk import embed_all
from engines.vector.embedder import embedder_of
from tests.engines.agent_mail.whole import Whole, build, whole
from tests.make.mail import changing
from tests.make.mail.messages import one, some_mail
from tests.make.mail.tantivy import upsert

pytestmark = pytest.mark.slow

QUERY = SearchQuery("deployment review br-2tnl", limit=20)


@pytest.fixture
def mail(tmp_path: Path) -> Iterator[Whole]:
    build(tmp_path, some_mail(59, 80).messages)
    with whole(tmp_path) as made:
        yield made


class Untouched:
    """Fails the test where it is asked."""

    name = "untouched"

    def search(self, *_: object) -> object:
        raise AssertionError("this engine was asked")


def guarded(mail: Whole, *tiers: FallbackTier) -> Whole:
    """Put engines that must not be asked in the place of some."""
    lexical = {**mail.service.tiers.lexical, **dict.fromkeys(tiers, Untouched())}
    changed = replace(mail.service.tiers, lexical=lexical)  # type: ignore[arg-type]
    return replace(mail, service=replace(mail.service, tiers=changed))


@pytest.mark.parametrize("mode", SearchMode)
def test_phase_1_fts5_serves_and_tantivy_is_not_asked(mail: Whole, mode: SearchMode) -> None:
    served = guarded(mail, FallbackTier.TANTIVY).under(KillSwitch.FTS5)
    found = served.ask(replace(QUERY, mode=mode))
    assert found.explain.engine == "fts5"
    assert "untouched" not in found.explain.note
    assert "asked" not in found.explain.note
    assert found.hits


def test_phase_2_both_are_asked_and_fts5_serves(mail: Whole) -> None:
    found = mail.under(KillSwitch.SHADOW).ask(QUERY)
    assert found.explain.engine == "fts5"
    assert found.explain.shadow is not None
    assert found.explain.shadow.shadow_engine == "tantivy"
    gone = guarded(mail, FallbackTier.TANTIVY).under(KillSwitch.SHADOW).ask(QUERY)
    assert gone.hits == found.hits
    assert gone.explain.shadow is None


def test_phase_3_fts5_and_its_triggers_are_removed_and_tantivy_serves(mail: Whole) -> None:
    served = mail.under(KillSwitch.TANTIVY)
    before = served.ask(QUERY).hits
    fts5 = mail.service.tiers.lexical[FallbackTier.FTS5]
    assert isinstance(fts5, Fts5Engine)
    fts5.remove()
    named = mail.store.ask("SELECT name FROM sqlite_master WHERE name LIKE 'messages_fts%'")
    assert named == []
    assert served.ask(QUERY).hits == before != ()
    message = one(9_000, "moss")
    mail.tantivy.update_incremental([changing.insert(mail.store, message)])
    assert served.ids(SearchQuery("moss")) == [9_000]
    with pytest.raises(IndexUnavailable):
        fts5.search("moss", Filters(), RankingMode.RELEVANCE, 5)
    without = served.without(FallbackTier.TANTIVY).ask(SearchQuery("moss"))
    assert [hit.message_id for hit in without.hits] == [9_000]
    assert without.explain.engine == "like"


@pytest.mark.parametrize("mode", [SearchMode.LEXICAL, SearchMode.HYBRID])
def test_phase_4_words_and_vectors_are_fused(mail: Whole, mode: SearchMode) -> None:
    found = mail.under(KillSwitch.HYBRID).ask(replace(QUERY, mode=mode)).explain
    assert (found.engine, found.method, found.actual_mode) == ("hybrid", "hybrid_rrf", "hybrid")
    assert not found.mode_downgraded


@pytest.mark.parametrize("phase", [None, *KillSwitch])
def test_the_switch_is_turned_back_at_any_time(mail: Whole, phase: KillSwitch | None) -> None:
    first = mail.under(KillSwitch.FTS5).ask(QUERY).hits
    mail.under(phase).ask(QUERY)
    assert mail.under(KillSwitch.FTS5).ask(QUERY).hits == first != ()


def test_changes_reach_tantivy_in_one_commit_and_fts5_at_once(mail: Whole) -> None:
    messages = [one(at, "moss") for at in range(9_000, 9_040)]
    changes = [changing.insert(mail.store, message) for message in messages]
    assert len(mail.under(KillSwitch.FTS5).ids(SearchQuery("moss"))) == 40
    assert mail.ids(SearchQuery("moss")) == []
    mail.log.events.clear()
    assert mail.tantivy.update_incremental(changes) == 40
    assert len(mail.log.events) == 1
    assert len(mail.ids(SearchQuery("moss"))) == 40
    assert upsert(messages[0]) == changes[0]


def test_both_indexes_are_cared_for_alike(mail: Whole) -> None:
    fts5 = mail.service.tiers.lexical[FallbackTier.FTS5]
    assert isinstance(fts5, Fts5Engine)
    both: tuple[Fts5Engine | TantivyMailEngine, ...] = (fts5, mail.tantivy)
    for index in both:
        assert index.rebuild().documents == 80
        assert index.health().ready
        assert index.update_incremental([]) == 0


def test_meaning_is_found_where_no_word_is_shared(tmp_path: Path) -> None:
    """The example with which the architecture begins."""
    texts = {1: "rollout problems", 2: "lunch on friday", 3: "holiday calendar"}
    messages = [one(at, subject) for at, subject in texts.items()]
    build(tmp_path, messages)
    model = embedder_of("all-MiniLM-L6-v2", 32)
    ids = sorted(texts)
    vectors = embed_all([texts[at] for at in ids], model, tmp_path / "cache")
    amvi.write_amvi(tmp_path / "meaning.amvi", model.identity, _ids(ids), vectors)
    index = amvi.AmviIndex.open(tmp_path / "meaning.amvi", model.identity, model.dimension)
    with whole(tmp_path) as mail:
        semantic = Semantic(model, index.search, lambda _: _ids(ids))
        tiers = replace(mail.service.tiers, semantic=semantic)
        service = replace(mail.service, tiers=tiers)
        query = SearchQuery("deployment issues")
        assert service.search(query).hits == ()
        for mode in (SearchMode.SEMANTIC, SearchMode.HYBRID):
            assert service.search(replace(query, mode=mode)).hits[0].message_id == 1


def _ids(ids: list[int]) -> NDArray[np.int64]:
    return np.array(ids, dtype=np.int64)
