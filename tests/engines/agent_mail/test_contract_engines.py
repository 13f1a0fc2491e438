"""The contract of engines: their answers, their layers and their migration."""

import ast
import os
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.core.records import Scalar
from harness_engines.contract import IndexUnavailable
from harness_engines.stacks.agent_mail import arm, contract, ingest
from harness_engines.stacks.agent_mail.contract import Filters, RankingMode, SearchMode, SearchQuery
from harness_engines.stacks.agent_mail.pipeline import scope
from harness_engines.stacks.agent_mail.pipeline.pages import Semantic
from harness_engines.stacks.agent_mail.pipeline.plan import FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.sqlite.schema import MESSAGES, drop_index
from harness_engines.vector import amvi
from harness_engines.vector.bulk import embed_all
from harness_engines.vector.embedder import embedder_of
from tests.engines.agent_mail import whole as make
from tests.engines.agent_mail.whole import ALL, MAIL, TEXT, WAYS, Failing, Whole, build, whole
from tests.engines.stacks.test_meaning import DOCUMENTS_ANY_LANGUAGE as DOCUMENTS
from tests.engines.stacks.test_meaning import piece_any_language as piece
from tests.make import mail_changing as changing
from tests.make import mail_messages
from tests.make.mail_engines import built_live, served
from tests.make.mail_messages import PHRASES, one, passes, some_filters, some_text
from tests.source import ROOT, imported, known, reached
from tests.thinned import examples

pytestmark = pytest.mark.slow


def test_fts5_and_tantivy_find_the_same_messages(post: Whole) -> None:
    rng, found = Random(1), 0
    for _ in range(80):
        filters = some_filters(rng) if rng.random() < 0.5 else Filters()
        query = make.question(some_text(rng), filters)
        by_fts5 = set(post.under(KillSwitch.FTS5).ids(query))
        assert set(post.under(KillSwitch.TANTIVY).ids(query)) == by_fts5, query.text
        found += bool(by_fts5)
    assert found > 30


@pytest.mark.parametrize("tier", [FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE])
def test_the_orders_are_those_of_the_contract(post: Whole, tier: FallbackTier) -> None:
    engine, by_id = post.service.tiers.lexical[tier], MAIL.by_id
    for text in ("review", "br-2tnl done", *PHRASES, "", "  \t\n", "\0"):
        best, recent = (engine.search(text, Filters(), order, ALL) for order in RankingMode)
        found = best.candidates
        assert [*found] == sorted(found, key=lambda c: (-c[1], c[0]))
        newest = sorted(found, key=lambda c: (-by_id[c[0]].created_ts, c[0]))
        assert [*recent.candidates] == newest
        if not text.strip(" \t\n\0"):
            assert [at for at, _ in found] == [m.message_id for m in MAIL.messages]
            assert {score for _, score in found} == {0.0}
            assert not best.used_like_fallback


@pytest.mark.parametrize(("mode", "switch"), WAYS)
def test_filters_hold(post: Whole, mode: SearchMode, switch: KillSwitch | None) -> None:
    """The filtered answer is the part of the whole one that passes; fusion may order it anew."""
    served, rng = post.under(switch), Random(2)
    everything = served.ids(make.question(TEXT, Filters(), mode))
    for _ in range(60):
        filters = some_filters(rng)
        kept = [at for at in everything if passes(MAIL.by_id[at], filters)]
        found = served.ids(make.question(TEXT, filters, mode))
        if mode in {SearchMode.HYBRID, SearchMode.HYBRID_RERANK}:
            found, kept = sorted(found), sorted(kept)
        assert found == kept


def test_the_same_in_another_process(post: Whole) -> None:
    """Sets of words have another order there."""
    code = "import sys; from tests.engines.agent_mail import whole as here;"
    folder = post.tantivy.root.parent
    said = subprocess.run(
        [sys.executable, "-c", f"{code} print(here.told(sys.argv[1]))", folder],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert said.strip() == make.told(str(folder))


STACK = "harness_engines.stacks.agent_mail."
BLOCKS = tuple(f"harness_engines.{room}" for room in ("vector", "ranking", "lexical", "rerank"))
RETRIEVAL = sorted(name for name in known() if name.startswith((*BLOCKS, f"{STACK}tantivy")))
"""What finds and orders, over text, vectors and ids."""
PATH = sorted(
    name
    for name in known()
    if name.startswith((STACK, *BLOCKS)) and not name.startswith(f"{STACK}mcp_tools")
)
"""All that a question goes through."""


STORE = {f"{STACK}sqlite.store", f"{STACK}sqlite.schema"}
UNKNOWN = {
    f"{STACK}sqlite.search": {scope.__name__},
    **dict.fromkeys(RETRIEVAL, {scope.__name__} | STORE),
}
"""What a module must not import, however far below it."""


@pytest.mark.parametrize("name", UNKNOWN)
def test_no_engine_knows_who_may_see_what_or_the_message_store(name: str) -> None:
    assert UNKNOWN[name] <= known().keys()
    below = {other for module in reached(known()[name]) for other in imported(module.tree)}
    assert UNKNOWN[name].isdisjoint(below | {name})


@pytest.mark.parametrize("name", PATH)
def test_nothing_in_the_path_of_a_question_is_asynchronous(name: str) -> None:
    loops = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
    module = known()[name]
    assert not [node for node in ast.walk(module.tree) if isinstance(node, loops)]
    assert "asyncio" not in set(imported(module.tree))


QUERY = SearchQuery(TEXT, limit=20)


def test_phase_2_both_are_asked_and_fts5_serves(post: Whole) -> None:
    found = post.under(KillSwitch.SHADOW).ask(QUERY)
    assert found.explain.engine == "fts5"
    assert found.explain.shadow is not None
    assert found.explain.shadow.shadow_engine == "tantivy"
    unasked = Failing("tantivy", AssertionError("this engine was asked"))
    gone = post.over({FallbackTier.TANTIVY: unasked}).under(KillSwitch.SHADOW).ask(QUERY)
    assert gone.hits == found.hits
    assert gone.explain.shadow is None


def test_phase_3_fts5_is_removed_and_tantivy_serves(tmp_path: Path) -> None:
    build(tmp_path, mail_messages.some_mail(59, 80).messages)
    with whole(tmp_path) as mail:
        served = mail.under(KillSwitch.TANTIVY)
        before = served.ask(QUERY).hits
        with mail.store.writing() as db:
            drop_index(db, MESSAGES)
        named = mail.store.ask("SELECT name FROM sqlite_master WHERE name LIKE 'messages_fts%'")
        assert named == []
        assert served.ask(QUERY).hits == before != ()
        mail.tantivy.update_incremental(changing.insert(mail.store, one(9_000, "moss")))
        assert served.ids(SearchQuery("moss")) == [9_000]
        with pytest.raises(IndexUnavailable):
            mail.service.tiers.lexical[FallbackTier.FTS5].search(
                "moss", Filters(), RankingMode.RELEVANCE, 5
            )
        without = served.without(FallbackTier.TANTIVY).ask(SearchQuery("moss"))
        assert [hit.message_id for hit in without.hits] == [9_000]
        assert without.explain.engine == "like"


@pytest.mark.parametrize("mode", [SearchMode.LEXICAL, SearchMode.HYBRID])
def test_phase_4_words_and_vectors_are_fused(post: Whole, mode: SearchMode) -> None:
    found = post.under(KillSwitch.HYBRID).ask(replace(QUERY, mode=mode)).explain
    assert (found.engine, found.method, found.actual_mode) == ("hybrid", "hybrid_rrf", "hybrid")
    assert not found.mode_downgraded


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


def test_filters_become_the_same_params_again() -> None:
    params: dict[str, Scalar] = {
        "project_id": 3, "product_id": 5, "importance": "high,low", "direction": "outbox",
        "agent_name": "Ann", "thread_id": "t", "ack_required": False, "min_ts": 0, "max_ts": 9,
        "sender_name": "Bob", "recipient_name": "Cid", "min_score": 0.25, "ranking": "recency",
    }  # fmt: skip
    asked = arm.question("x", SearchMode.LEXICAL, 7, params)
    assert (asked.project_id, asked.sender_name, asked.recipient_name) == (3, "Bob", "Cid")
    assert arm.params_of(asked) == params
    assert set(params) == set(arm.KNOWN)


TANTIVY_GONE = (FallbackTier.TANTIVY, FallbackTier.HYBRID)
BY_TIER: dict[str, Callable[[Whole], Whole]] = {
    "tantivy": lambda mail: mail,
    "fts5": lambda mail: mail.under(KillSwitch.FTS5),
    "like": lambda mail: mail.without(*TANTIVY_GONE, FallbackTier.FTS5),
}


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("way", BY_TIER)
def test_signs_hold_in_every_mode(post: Whole, way: str, mode: SearchMode) -> None:
    served = BY_TIER[way](post)
    word, of = "deployment", {m.message_id: f"{m.subject} {m.body}".lower() for m in MAIL.messages}
    lacking = [at for at, text in of.items() if word not in text]
    found = served.ask(SearchQuery(f"-{word}", mode=mode, limit=ALL))
    assert [hit.message_id for hit in found.hits] == lacking
    assert 0 < len(lacking) < len(MAIL.messages)
    assert {hit.score for hit in found.hits} == {0.0}
    ids = served.ids(SearchQuery(f"review -{word}", mode=mode, limit=ALL))
    assert set() < set(ids) <= set(lacking)
    ids = served.ids(SearchQuery(f"+{word} review", mode=mode, limit=ALL))
    assert ids
    assert set(ids).isdisjoint(lacking)


Engines = Mapping[FallbackTier, contract.MailEngine]


@contextmanager
def indexed(folder: Path) -> Iterator[Engines]:
    """Index the documents of many languages."""
    built_live(folder, DOCUMENTS, embedder="")
    with served(folder, embedder="") as searcher:
        yield searcher.service.tiers.lexical


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    with indexed(tmp_path_factory.mktemp("index")) as engines:
        yield engines


def found(engines: Engines, text: str) -> frozenset[str]:
    """Ask both engines, and see that both find the same."""

    def shown(name: FallbackTier) -> frozenset[str]:
        told = engines[name].search(text, Filters(), RankingMode.RELEVANCE, 999)
        return frozenset(DOCUMENTS[at - 1].doc_id for at, _ in told.candidates)

    by_engine = {name: shown(name) for name in (FallbackTier.FTS5, FallbackTier.TANTIVY)}
    assert len({*by_engine.values()}) == 1, (text, by_engine)
    return by_engine[FallbackTier.FTS5]


@settings(max_examples=examples(500), deadline=None)
@given(text=st.lists(piece, min_size=1, max_size=4).map(" ".join))
def test_both_engines_find_the_same_however_it_is_composed(opened: Engines, text: str) -> None:
    assert len({found(opened, unicodedata.normalize(kind, text)) for kind in ("NFC", "NFD")}) == 1


def test_an_edit_by_another_program_is_found(tmp_path: Path) -> None:
    with indexed(tmp_path) as engines, ingest.opened(tmp_path / "index" / arm.STORE) as box:

        def ids(text: str) -> set[int]:
            fts5 = engines[FallbackTier.FTS5]
            told = fts5.search(text, Filters(), RankingMode.RELEVANCE, 999)
            return {at for at, _ in told.candidates}

        box.edit(1, subject="更新", body="café")
        assert ids("更新") == {1}
        assert 1 in ids("+cafe")
        with box.store.writing() as db:
            db.execute("UPDATE messages SET subject = 'zeppelin', body = '' WHERE id = 1")
        assert (ids("更新"), ids("zeppelin")) == (set(), {1})
        box.edit(1, subject="cafe\u0301", body="")
        box.edit(1, subject="caf\u00e9")
        assert 1 in ids("+cafe")
        box.delete(1)
        assert ids("zeppelin") == set()
