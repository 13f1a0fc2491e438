"""The contract of engines: their answers, their layers and their migration."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from harness_engines.contract import IndexUnavailable
from harness_engines.stacks.agent_mail.contract import Filters, RankingMode, SearchMode, SearchQuery
from harness_engines.stacks.agent_mail.pipeline import scope
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.pipeline.retrievers import Semantic
from harness_engines.stacks.agent_mail.sqlite.search import Fts5Engine
from harness_engines.stacks.agent_mail.tantivy.engine import TantivyMailEngine
from harness_engines.vector import amvi
from harness_engines.vector.bulk import embed_all
from harness_engines.vector.embedder import embedder_of
from tests.engines.agent_mail.whole import MAIL, Whole, build, whole
from tests.make import mail_changing as changing
from tests.make.mail_engines import upsert
from tests.make.mail_messages import (
    PHRASES,
    PRODUCTS,
    one,
    passes,
    some_filters,
    some_mail,
    some_text,
)
from tests.source import ROOT, imported, known, reached

pytestmark = pytest.mark.slow
ALL = 1_000
WAYS = [*((mode, None) for mode in SearchMode), (SearchMode.LEXICAL, KillSwitch.FTS5)]
TEXT = "deployment review br-2tnl"
SWITCHES = pytest.mark.parametrize("switch", [None, KillSwitch.FTS5])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("engines")
    build(made, MAIL.messages)
    return made


def question(text: str, filters: Filters, mode: SearchMode = SearchMode.LEXICAL) -> SearchQuery:
    """Ask with these filters; a set of projects is asked for as the product that has them."""
    products = {projects: product for product, projects in PRODUCTS.items()}
    by_product = filters.product_projects
    return SearchQuery(
        text,
        mode=mode,
        limit=ALL,
        project_id=filters.project_id,
        product_id=None if by_product is None else products[by_product],
        importance=tuple(filters.importance),
        direction=filters.direction,
        agent_name=filters.agent_name,
        thread_id=filters.thread_id,
        ack_required=filters.ack_required,
        time_range=filters.time_range,
        sender_name=filters.sender_name,
        recipient_name=filters.recipient_name,
    )


def test_fts5_and_tantivy_find_the_same_messages(post: Whole) -> None:
    rng, found = Random(1), 0
    for _ in range(150):
        query = question(some_text(rng), some_filters(rng) if rng.random() < 0.5 else Filters())
        by_fts5 = set(post.under(KillSwitch.FTS5).ids(query))
        assert set(post.under(KillSwitch.TANTIVY).ids(query)) == by_fts5, query.text
        found += bool(by_fts5)
    assert found > 60


@pytest.mark.parametrize("tier", [FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE])
def test_the_orders_are_those_of_the_contract(post: Whole, tier: FallbackTier) -> None:
    engine, by_id = post.service.tiers.lexical[tier], MAIL.by_id
    for text in ("review", "br-2tnl done", *PHRASES, "", "  \t\n", "\0"):
        best, recent = (engine.search(text, Filters(), order, ALL) for order in RankingMode)
        found = best.candidates
        assert [*found] == sorted(found, key=lambda c: (-c.raw_score, c.message_id))
        newest = sorted(found, key=lambda c: (-by_id[c.message_id].created_ts, c.message_id))
        assert [*recent.candidates] == newest
        if not text.strip(" \t\n\0"):
            assert [c.message_id for c in found] == [m.message_id for m in MAIL.messages]
            assert {c.raw_score for c in found} == {0.0}
            assert not best.used_like_fallback


@pytest.mark.parametrize(("mode", "switch"), WAYS)
def test_filters_hold(post: Whole, mode: SearchMode, switch: KillSwitch | None) -> None:
    """The filtered answer is the part of the whole one that passes; fusion may order it anew."""
    served, rng = post.under(switch), Random(2)
    everything = served.ids(question(TEXT, Filters(), mode))
    for _ in range(60):
        filters = some_filters(rng)
        kept = [at for at in everything if passes(MAIL.by_id[at], filters)]
        found = served.ids(question(TEXT, filters, mode))
        if mode in {SearchMode.HYBRID, SearchMode.HYBRID_RERANK}:
            found, kept = sorted(found), sorted(kept)
        assert found == kept


def asked() -> list[SearchQuery]:
    rng = Random(3)
    return [
        replace(
            question(some_text(rng), some_filters(rng) if rng.random() < 0.5 else Filters()),
            mode=mode,
            ranking=rng.choice([*RankingMode]),
            limit=rng.choice((3, ALL)),
        )
        for mode in SearchMode
        for _ in range(20)
    ]


@SWITCHES
def test_restart_and_copy_answer_alike(
    folder: Path, tmp_path: Path, switch: KillSwitch | None
) -> None:
    build(tmp_path, MAIL.messages[::-1])
    answers = []
    for at in (folder, folder, tmp_path):
        with whole(at) as made:
            answers.append([made.under(switch).ask(query).hits for query in asked()])
    first, again, copy = answers
    assert first == again == copy
    assert sum(map(bool, first)) > 30


@SWITCHES
def test_the_same_in_another_process(folder: Path, switch: KillSwitch | None) -> None:
    """Sets of words have another order there."""
    code = "import sys; from tests.engines.agent_mail import test_contract_engines as here;"
    said = subprocess.run(
        [sys.executable, "-c", f"{code} print(here.told(*sys.argv[1:]))", folder, switch or ""],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.strip() == told(str(folder), switch or "")


def told(folder: str, switch: str) -> str:
    """Write ids and scores of the answers to all questions."""
    with whole(Path(folder)) as post:
        served = post.under(KillSwitch.read(switch))
        found = [served.ask(query).hits for query in asked()]
    return json.dumps([[(hit.message_id, hit.score) for hit in hits] for hits in found])


def test_threads_may_ask_one_service(post: Whole) -> None:
    queries = asked()
    alone = [post.ids(query) for query in queries]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(post.ids, queries * 3))
    assert together == alone * 3


@pytest.mark.parametrize(
    "text", ['"', "(deployment", "AND OR", "*", "a:b", "br-2tnl AND (", "NEAR(", "+-", "!!!", "🎉"]
)
@pytest.mark.parametrize(("mode", "switch"), WAYS)
def test_no_text_is_an_error_in_any_mode(
    post: Whole, text: str, mode: SearchMode, switch: KillSwitch | None
) -> None:
    found = post.under(switch).ask(SearchQuery(text, mode=mode)).explain
    assert (found.mode_downgraded, found.used_like_fallback) == (False, False)


STACK = "harness_engines.stacks.agent_mail."
BLOCKS = tuple(f"harness_engines.{room}" for room in ("vector", "ranking", "lexical", "rerank"))
RETRIEVAL = sorted(name for name in known() if name.startswith((*BLOCKS, f"{STACK}tantivy")))
"""What finds and orders, over text, vectors and ids."""
ON_SQLITE = {f"{STACK}sqlite.search", f"{STACK}pipeline.retrievers"}
PATH = sorted(
    name
    for name in known()
    if name.startswith((STACK, *BLOCKS)) and not name.startswith(f"{STACK}mcp_tools")
)
"""All that a question goes through."""


def names(name: str) -> set[str]:
    """Everything that a module and those below it import."""
    return {other for module in reached(known()[name]) for other in imported(module.tree)}


def test_the_module_graph_is_seen() -> None:
    assert len(RETRIEVAL) > 12
    assert f"{STACK}tantivy.engine" in RETRIEVAL
    assert f"{STACK}service" in PATH
    assert scope.__name__ in names(f"{STACK}service")
    assert "sqlite3" in names(f"{STACK}sqlite.search")


@pytest.mark.parametrize("name", [*RETRIEVAL, *sorted(ON_SQLITE)])
def test_no_engine_knows_who_may_see_what(name: str) -> None:
    assert scope.__name__ not in names(name) | {name}


@pytest.mark.parametrize("name", RETRIEVAL)
def test_retrieval_does_not_depend_on_the_message_store(name: str) -> None:
    store = {f"{STACK}sqlite.store", f"{STACK}sqlite.schema"}
    assert store <= known().keys()
    assert store.isdisjoint(names(name))


@pytest.mark.parametrize("name", PATH)
def test_nothing_in_the_path_of_a_question_is_asynchronous(name: str) -> None:
    loops = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
    module = known()[name]
    assert not [node for node in ast.walk(module.tree) if isinstance(node, loops)]
    assert "asyncio" not in set(imported(module.tree))


QUERY = SearchQuery(TEXT, limit=20)


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


def guarded(post: Whole, *tiers: FallbackTier) -> Whole:
    """Put engines that must not be asked in the place of some."""
    lexical = {**post.service.tiers.lexical, **dict.fromkeys(tiers, Untouched())}
    changed = replace(post.service.tiers, lexical=lexical)  # type: ignore[arg-type]
    return replace(post, service=replace(post.service, tiers=changed))


@pytest.mark.parametrize("mode", SearchMode)
def test_phase_1_fts5_alone_serves(mail: Whole, mode: SearchMode) -> None:
    served = guarded(mail, FallbackTier.TANTIVY).under(KillSwitch.FTS5)
    found = served.ask(replace(QUERY, mode=mode))
    assert found.explain.engine == "fts5"
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


def test_phase_3_fts5_is_removed_and_tantivy_serves(mail: Whole) -> None:
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
def test_the_switch_can_be_turned_back(mail: Whole, phase: KillSwitch | None) -> None:
    first = mail.under(KillSwitch.FTS5).ask(QUERY).hits
    mail.under(phase).ask(QUERY)
    assert mail.under(KillSwitch.FTS5).ask(QUERY).hits == first != ()


def test_both_indexes_follow_changes_and_are_cared_for_alike(mail: Whole) -> None:
    fts5 = mail.service.tiers.lexical[FallbackTier.FTS5]
    assert isinstance(fts5, Fts5Engine)
    both: tuple[Fts5Engine | TantivyMailEngine, ...] = (fts5, mail.tantivy)
    for index in both:
        assert index.rebuild().documents == 80
        assert index.health().ready
        assert index.update_incremental([]) == 0
    messages = [one(at, "moss") for at in range(9_000, 9_040)]
    changes = [changing.insert(mail.store, message) for message in messages]
    assert len(mail.under(KillSwitch.FTS5).ids(SearchQuery("moss"))) == 40
    assert mail.ids(SearchQuery("moss")) == []
    mail.log.events.clear()
    assert mail.tantivy.update_incremental(changes) == 40
    assert len(mail.log.events) == 1
    assert len(mail.ids(SearchQuery("moss"))) == 40
    assert upsert(messages[0]) == changes[0]


def test_meaning_is_found_where_no_word_is_shared(tmp_path: Path) -> None:
    """The example with which the architecture begins."""
    texts = ["rollout problems", "lunch on friday", "holiday calendar"]
    ids = np.array([1, 2, 3], dtype=np.int64)
    build(tmp_path, [one(at, text) for at, text in enumerate(texts, start=1)])
    model = embedder_of("all-MiniLM-L6-v2", 32)
    vectors = embed_all(texts, model, tmp_path / "cache")
    amvi.write_amvi(tmp_path / "meaning.amvi", model.identity, ids, vectors)
    index = amvi.AmviIndex.open(tmp_path / "meaning.amvi", model.identity, model.dimension)
    with whole(tmp_path) as mail:
        semantic = Semantic(model, index.search, lambda _: ids)
        service = replace(mail.service, tiers=replace(mail.service.tiers, semantic=semantic))
        query = SearchQuery("deployment issues")
        assert service.search(query).hits == ()
        for mode in (SearchMode.SEMANTIC, SearchMode.HYBRID):
            assert service.search(replace(query, mode=mode)).hits[0].message_id == 1
