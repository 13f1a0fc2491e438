"""Answers to any question: filters, scores by hand, and the index under them."""

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, astuple, replace
from functools import cache
from math import log, log2
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import tantivy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness_engines.lexical.tantivy import analyzer
from harness_engines.stacks.agent_mail import contract
from harness_engines.stacks.agent_mail.contract import Direction, Filters, SearchMode, SearchQuery
from harness_engines.stacks.agent_mail.pipeline import plan
from harness_engines.stacks.agent_mail.pipeline.plan import LIFTED, FallbackTier, KillSwitch
from harness_engines.stacks.agent_mail.pipeline.scope import Scope, Visibility
from harness_engines.stacks.agent_mail.tantivy.index import INDEX, schema_hash
from harness_engines.vector import amvi
from harness_engines.vector.embedder import HashEmbedder, OnnxEmbedder
from tests.engines.agent_mail.whole import ALL, MAIL, TEXT, WAYS, Whole, build, by_length, whole
from tests.make import mail_messages
from tests.make.mail_engines import NONE, Case, built
from tests.make.mail_messages import AGENTS, MINUTES, NOON, PROJECTS, STEP, one, passes, some_text
from tests.thinned import examples

pytestmark = pytest.mark.slow
DEEP = 10_000
LEXICAL = (FallbackTier.TANTIVY, FallbackTier.FTS5, FallbackTier.LIKE)


@pytest.mark.parametrize("tier", LEXICAL)
def test_a_filter_chooses_from_what_words_find(post: Whole, tier: FallbackTier) -> None:
    search, rng = post.service.tiers.lexical[tier].search, Random(47)

    @cache
    def unfiltered(text: str, ranking: contract.RankingMode) -> contract.CandidateList:
        return search(text, Filters(), ranking, DEEP)

    texts = ("", *(some_text(rng) for _ in range(40)))
    for _ in range(250):
        text, filters = rng.choice(texts), mail_messages.some_filters(rng)
        ranking, depth = rng.choice([*contract.RankingMode]), rng.choice((0, 1, 3, 20, DEEP))
        base = unfiltered(text, ranking).candidates
        expected = tuple(c for c in base if passes(MAIL.by_id[c[0]], filters))
        found = search(text, filters, ranking, depth)
        assert found.candidates == expected[:depth], (text, filters)
        assert found.exhausted == (len(expected) <= depth)


def by_each(post: Whole, filters: Filters, text: str = "") -> list[int]:
    """Ask the three engines in both orders, and see that they find the same."""
    found = {
        tuple(sorted(at for at, _ in engine.search(text, filters, ranking, DEEP).candidates))
        for engine in (post.service.tiers.lexical[tier] for tier in LEXICAL)
        for ranking in contract.RankingMode
    }
    (ids,) = found
    return list(ids)


@pytest.mark.parametrize(
    ("some", "same"),
    [
        (Filters(project_id=1, product_projects=frozenset({2, 3})), Filters(project_id=1)),
        (Filters(direction=Direction.INBOX), Filters()),
        (Filters(direction=Direction.OUTBOX), Filters()),
        (
            Filters(direction=Direction.OUTBOX, agent_name="Zoë"),
            Filters(sender_name="Zoë"),
        ),
        (
            Filters(direction=Direction.INBOX, agent_name="Zoë"),
            Filters(recipient_name="Zoë"),
        ),
        (Filters(time_range=contract.TimeRange(-(2**80), 2**80)), Filters()),
        (Filters(time_range=contract.TimeRange(-(2**63), 2**63 - 1)), Filters()),
        (Filters(importance=frozenset(contract.Importance)), Filters()),
        (Filters(product_projects=frozenset(range(40_000))), Filters()),
        (Filters(product_projects=frozenset({*PROJECTS, 2**64})), Filters()),
        (Filters(product_projects=frozenset()), None),
        (Filters(product_projects=frozenset({2**64})), None),
        (Filters(project_id=2**80), None),
        (Filters(project_id=-(2**80)), None),
        (Filters(time_range=contract.TimeRange(NOON + STEP, NOON)), None),
        (Filters(time_range=contract.TimeRange(5, 4)), None),
        (Filters(time_range=contract.TimeRange(2**80, None)), None),
        (Filters(time_range=contract.TimeRange(None, -(2**70))), None),
        (Filters(sender_name="AMBERFOX"), None),
        (Filters(sender_name="Amber%"), None),
        (Filters(sender_name="AmberFox "), None),
        (Filters(sender_name=""), None),
        (Filters(sender_name="\ud800"), None),
        (Filters(agent_name="\udfff"), None),
        (Filters(thread_id="\ud800"), None),
        (Filters(thread_id="br_2tnl"), None),
        (Filters(thread_id="br"), None),
        (Filters(recipient_name="x') OR 1 --"), None),
        (Filters(recipient_name="x" * 100_000), None),
    ],
)
def test_filters_that_mean_the_same(post: Whole, some: Filters, same: Filters | None) -> None:
    """None for a filter that nothing passes, whatever words are typed."""
    passing = [m.message_id for m in MAIL.messages if same and passes(m, same)]
    assert by_each(post, some) == passing
    assert bool(passing) == (same is not None)
    assert same or by_each(post, some, "review") == []


def test_bounds_of_time_and_all_recipients_and_projects_count(post: Whole) -> None:
    at = NOON + STEP * (MINUTES // 2)
    exactly = [m.message_id for m in MAIL.messages if m.created_ts == at]
    assert by_each(post, Filters(time_range=contract.TimeRange(at, at))) == exactly != []
    copied = {m.message_id for m in MAIL.messages if "Zoë" in m.recipients[1:]}
    assert set() < copied <= set(by_each(post, Filters(recipient_name="Zoë")))
    both = by_each(post, Filters(product_projects=frozenset({1, 2})))
    assert {MAIL.by_id[at].project_id for at in both} == {1, 2}
    moved = by_each(post, Filters(product_projects=frozenset({2})))
    assert moved == [at for at in both if MAIL.by_id[at].project_id == 2]


FEW = st.none() | st.integers(-1, 9) | st.just(2**70)
NAMES = st.none() | st.sampled_from([*AGENTS, "a'b", "%", "x\0y", "\ud800"])
QUERIES = st.builds(
    SearchQuery,
    text=st.integers().map(lambda seed: some_text(Random(seed))) | st.text(max_size=40),
    mode=st.sampled_from(SearchMode),
    doc_kind=st.sampled_from([contract.DocKind.MESSAGE, *contract.DocKind]),
    project_id=st.none() | st.sampled_from([*PROJECTS, 2**70]),
    product_id=st.none() | st.sampled_from([*mail_messages.PRODUCTS, -1]),
    importance=st.lists(st.sampled_from(contract.Importance), max_size=3).map(tuple),
    direction=st.none() | st.sampled_from(Direction),
    agent_name=NAMES,
    thread_id=st.none() | st.sampled_from(mail_messages.THREADS),
    ack_required=st.none() | st.booleans(),
    time_range=st.builds(
        contract.TimeRange, st.none() | st.just(NOON + STEP), st.none() | st.just(2**80)
    ),
    sender_name=NAMES,
    recipient_name=NAMES,
    min_score=st.none() | st.floats() | st.floats(0, 1),
    ranking=st.sampled_from(contract.RankingMode),
    limit=FEW,
    cursor=st.none()
    | st.text(max_size=40)
    | st.builds(
        lambda *seen: plan.SearchCursor(*seen).encode(),
        st.floats(width=64),
        st.integers(1, 500),
        st.just("") | st.sampled_from(FallbackTier),
    ),
    rerank_top_k=FEW,
    rrf_k=FEW,
)


@cache
def by_id(seed: int) -> Scope:
    """Allow, redact and deny messages at random, the same ones for a seed."""
    return Scope(
        f"random {seed}", lambda m: Random(f"{seed} {m.message_id}").choice(tuple(Visibility))
    )


@settings(
    deadline=None,
    max_examples=examples(250),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    query=QUERIES
    | st.builds(SearchQuery, st.sampled_from(mail_messages.PHRASES), st.sampled_from(SearchMode)),
    switch=st.none() | st.sampled_from(KillSwitch),
    seed=st.integers(0, 3),
)
def test_any_question_is_answered_in_order_and_explained(
    post: Whole, query: SearchQuery, switch: KillSwitch | None, seed: int
) -> None:
    found = post.under(switch).ask(query, by_id(seed) if seed else None)
    hits = found.hits or found.entities
    ids = [h.message_id for h in found.hits] or [h.doc_id for h in found.entities]
    scores = [hit.score for hit in hits]
    assert not found.hits if query.doc_kind is not contract.DocKind.MESSAGE else not found.entities
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert len(ids) == len(set(ids)) <= query.effective_limit
    times = [-h.created_ts for h in found.hits]
    recent = (
        query.ranking is contract.RankingMode.RECENCY and query.doc_kind is contract.DocKind.MESSAGE
    )
    order = times if recent else [-score for score in scores]
    assert [*zip(order, ids, strict=True)] == sorted(zip(order, ids, strict=True))
    least = query.min_score
    assert least is None or not any(score < least for score in scores)
    assert found.next_cursor is None or len(hits) == query.effective_limit
    explain = found.explain
    assert explain.facet_count == len(explain.facets_applied)
    total, *parts = astuple(explain.timing)
    assert all(part is None or part >= 0 for part in parts)
    assert sum(part or 0 for part in parts) <= total
    assert explain.requested_mode == query.mode
    assert explain.mode_downgraded == (explain.downgrade_reason is not None)
    assert explain.downgrade_reason != ""
    lifted = switch in LIFTED and query.doc_kind is contract.DocKind.MESSAGE
    same = explain.actual_mode == query.mode
    assert explain.mode_downgraded != same or (lifted and query.mode is SearchMode.LEXICAL)
    assert explain.engine == found.served_by
    assert explain.redacted_count == sum(hit.redacted for hit in found.hits)
    assert not explain.cursor_invalidated or query.cursor is not None
    if not hits and explain.method == "empty":
        assert explain.note
    json.dumps(asdict(found), allow_nan=False).encode()


def found_by(post: Whole, tier: FallbackTier) -> dict[int, float]:
    """Scores of an engine asked directly, higher for better."""
    engine = post.service.tiers.lexical[tier]
    found = engine.search(TEXT, Filters(), contract.RankingMode.RELEVANCE, ALL)
    return dict(found.candidates)


@pytest.mark.parametrize(
    ("switch", "tier"),
    [(KillSwitch.FTS5, FallbackTier.FTS5), (KillSwitch.TANTIVY, FallbackTier.TANTIVY)],
)
def test_a_lexical_score_is_a_share(post: Whole, switch: KillSwitch, tier: FallbackTier) -> None:
    own = found_by(post, tier)
    best = max(own.values())
    shown = post.under(switch).ask(SearchQuery(TEXT, limit=ALL)).hits
    assert len(shown) == len(own) > 20
    for hit in shown:
        assert hit.raw_score == own[hit.message_id]
        assert hit.score == pytest.approx(hit.raw_score / best, abs=1e-12)
    assert shown[0].score == 1.0


@pytest.mark.parametrize("rrf_k", [1, 60, 1_000])
def test_a_hybrid_score_is_the_share_of_both_legs(post: Whole, rrf_k: int) -> None:
    words, nearest = (
        post.ids(SearchQuery(TEXT, mode=mode, limit=ALL))
        for mode in (SearchMode.LEXICAL, SearchMode.SEMANTIC)
    )
    shown = post.ask(SearchQuery(TEXT, mode=SearchMode.HYBRID, limit=ALL, rrf_k=rrf_k)).hits
    assert {hit.message_id for hit in shown} == {*words, *nearest}
    for hit in shown:
        legs = [leg for leg in (words, nearest) if hit.message_id in leg]
        total = sum(1 / (rrf_k + 1 + leg.index(hit.message_id)) for leg in legs)
        assert hit.raw_score == pytest.approx(total, abs=1e-12)
        assert hit.score == pytest.approx(total / (2 / (rrf_k + 1)), abs=1e-11)


def test_a_reranked_score_is_the_rerankers_and_the_rest_stays_below(post: Whole) -> None:
    hybrid = post.ask(SearchQuery(TEXT, mode=SearchMode.HYBRID, limit=ALL)).hits
    query = SearchQuery(TEXT, mode=SearchMode.HYBRID_RERANK, limit=ALL, rerank_top_k=20)
    shown = post.ask(query).hits
    window = [hit.message_id for hit in hybrid[:20]]
    given = dict(zip(window, by_length(TEXT, window, []), strict=True))
    assert {hit.message_id: (hit.score, hit.raw_score) for hit in shown[:20]} == given
    assert [hit.message_id for hit in shown[20:]] == [hit.message_id for hit in hybrid[20:]]
    assert all(hit.score <= shown[19].score for hit in shown[20:])


@pytest.mark.parametrize(("mode", "switch"), WAYS)
@pytest.mark.parametrize("least", [0.0, 0.3, 0.75, 1.0])
def test_the_threshold_is_on_the_score_that_is_shown(
    post: Whole, mode: SearchMode, switch: KillSwitch | None, least: float
) -> None:
    served, query = post.under(switch), SearchQuery(TEXT, mode=mode, limit=ALL)
    everything = served.ask(query).hits
    kept = tuple(hit for hit in everything if hit.score >= least)
    assert served.ask(replace(query, min_score=least)).hits == kept
    assert served.ask(replace(query, min_score=least, limit=5)).hits == kept[:5]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_score_that_is_no_number_never_reaches_a_caller(post: Whole, value: float) -> None:
    class Bad:
        def search(self, *asked: Any) -> contract.CandidateList:  # noqa: ANN401  as MailEngine
            found = post.service.tiers.lexical[FallbackTier.FTS5].search(*asked)
            first, *others = found.candidates
            return replace(found, candidates=((first[0], value), *others))

    found = post.over({FallbackTier.TANTIVY: Bad()}).ask(SearchQuery(TEXT))
    assert found.explain.engine == "fts5"
    assert all(math.isfinite(hit.score) and math.isfinite(hit.raw_score) for hit in found.hits)


K1, B = 1.2, 0.75
BODIES = {
    1: "moss",
    2: "moss moss stone",
    3: "moss and other things that make it longer than the rest of them",
    4: "stone",
    5: "water",
    6: "salt water",
    7: "salt",
}
BODY_WORDS = {at: body.split() for at, body in BODIES.items()}


@pytest.fixture(scope="module")
def mail_bm25(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    folder = tmp_path_factory.mktemp("bm25")
    build(folder, [one(at, body=body) for at, body in BODIES.items()])
    with whole(folder) as made:
        yield made


def by_hand(text: str, tier: FallbackTier) -> dict[int, float]:
    """Score the messages that have words of ``text`` in their body, whose weight is 1."""
    mean = sum(map(len, BODY_WORDS.values())) / len(BODY_WORDS)
    found: dict[int, float] = {}
    for word in text.split():
        have = [at for at, words in BODY_WORDS.items() if word in words]
        odds = (len(BODY_WORDS) - len(have) + 0.5) / (len(have) + 0.5)
        weight = log(1 + odds) if tier is FallbackTier.TANTIVY else log(odds)
        for at in have:
            often, long = BODY_WORDS[at].count(word), len(BODY_WORDS[at])
            score = weight * often * (K1 + 1) / (often + K1 * (1 - B + B * long / mean))
            found[at] = found.get(at, 0.0) + score
    return found


@pytest.mark.parametrize("tier", [FallbackTier.TANTIVY, FallbackTier.FTS5])
@pytest.mark.parametrize("text", ["moss", "stone", "water", "longer", "moss stone"])
def test_bm25_orders_by_rarity_and_length(mail_bm25: Whole, tier: FallbackTier, text: str) -> None:
    engine = mail_bm25.service.tiers.lexical[tier]
    found = engine.search(text, Filters(), contract.RankingMode.RELEVANCE, 10).candidates
    scores = dict(found)
    assert scores == pytest.approx(by_hand(text, tier), rel=1e-5)
    assert scores


def test_a_worked_example_of_a_comparison() -> None:
    found = contract.compare_with_shadow("fts5", [1, 2, 3], "tantivy", [2, 4, 1, 5])
    ideal = 10 / log2(2) + 9 / log2(3) + 8 / log2(4)
    assert asdict(found) == {
        "serving_engine": "fts5",
        "shadow_engine": "tantivy",
        "overlap_jaccard": 2 / 5,
        "ndcg_at_10": pytest.approx((9 / log2(2) + 10 / log2(4)) / ideal),
        "mrr_delta": pytest.approx(1 / 3 - 1),
        "serving_only": 1,
        "shadow_only": 2,
    }


MB = 1_000_000
WHOLE = {"record": "basic", "tokenizer": "raw"}
INDEX_WORDS = {"record": "position", "tokenizer": "am_normalize"}


@pytest.fixture(scope="module")
def mail_index(tmp_path_factory: pytest.TempPathFactory) -> Case:
    texts = ["see br-2tnl", "br and 2tnl apart", "Deployment of the index", "deploy"]
    root = tmp_path_factory.mktemp("index") / "mail"
    return built(root, [one(at, subject) for at, subject in enumerate(texts, start=1)])


NUMBERS = ("message_id", "project_id", "created_ts", "ack_required")
WHOLE_NAMES = ("sender_name", "thread_id", "importance", "recipients", "subject_prefix")


def test_the_index_is_as_the_page_says(mail_index: Case) -> None:
    root = mail_index.engine.root
    meta = json.loads((root / INDEX / "meta.json").read_text())
    made = {field["name"]: field["options"] for field in meta["schema"]}
    named = {*NUMBERS, *WHOLE_NAMES, "subject", "body"}
    assert set(made) == named | {"identifiers", "text"}
    assert {name for name in named if not made[name]["stored"]} == {"subject_prefix"}
    assert all(made[name]["indexed"] and made[name]["fast"] for name in NUMBERS)
    assert {name for name in WHOLE_NAMES if made[name].get("fast")} == {"thread_id"}
    for wanted, names in ((WHOLE, WHOLE_NAMES), (INDEX_WORDS, ("subject", "body"))):
        for name in names:
            assert {**made[name]["indexing"], **wanted} == made[name]["indexing"]
    of_schema = {"sha256": schema_hash(mail_index.engine.weights)}
    assert json.loads((root / "schema_hash.json").read_text()) == of_schema


def test_the_tokens_of_the_index_are_those_of_am_normalize(mail_index: Case) -> None:
    index = tantivy.Index.open(str(mail_index.engine.root / INDEX))
    index.register_tokenizer("am_normalize", analyzer("none"))
    searcher = index.searcher()
    for word, count in {"deployment": 1, "Deployment": 0, "2tnl": 2, "br-2tnl": 0}.items():
        term = tantivy.Query.term_query(index.schema, "subject", word)
        assert len(searcher.search(term, 9).hits) == count
    assert mail_index.ids("br-2tnl") == [1]
    assert set(mail_index.ids("br 2tnl")) == {1, 2}
    found = [at for at, _ in mail_index.engine.typeahead("depl", NONE, 9)]
    assert sorted(found) == [3, 4]


def test_ten_thousand_messages_take_eight_megabytes_of_vectors(tmp_path: Path) -> None:
    """Of a vector of 384 dimensions in half precision; the head and the padding are small."""
    dimension, sizes = HashEmbedder().dimension, []
    assert dimension == 384
    for count in (100, 1_100):
        vectors = np.zeros((count, dimension), dtype=np.float16)
        path = tmp_path / "vectors.amvi"
        amvi.write_amvi(path, "hash", np.arange(count, dtype=np.int64), vectors)
        index = amvi.AmviIndex.open(path, "hash", dimension)
        assert isinstance(index.vectors, np.memmap), "read from the file when it is needed"
        assert index.vectors.dtype == np.float16
        sizes.append(path.stat().st_size)
    each = (sizes[1] - sizes[0]) / 1_000
    assert each == pytest.approx(2 * dimension + 12, abs=0.1)
    assert sizes[0] - 100 * each < 128
    assert 7.5 * MB < 10_000 * each < 8.5 * MB
    assert 75 * MB < 100_000 * each < 80 * MB


def test_the_hash_embedder_needs_no_model_and_is_not_taken_for_one() -> None:
    embedder = HashEmbedder()
    near, far = embedder.embed(["deployment issues", "rollout problems"])
    assert near.shape == (384,)
    assert float(near @ far) == pytest.approx(0, abs=0.2), "it knows words, not meanings"
    assert not isinstance(embedder, OnnxEmbedder)
    assert embedder.identity == "fnv1a-64, 384 dimensions", "its index is signed as a hash"
