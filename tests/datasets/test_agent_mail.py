"""The generator of agent mail: worlds, words, parts and the set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from agent_mail.changes import base, changes
from agent_mail.dice import Dice, Lots, mixed
from agent_mail.filters import NAMES, params
from agent_mail.filters import passes as passes_agent_mail_parts
from agent_mail.generate import CONTRAST, KINDS, SPARE, Traffic, choose, generate, judge, needs
from agent_mail.lexicon import Concept, lexicon
from agent_mail.message import Fact, Message
from agent_mail.needs import GRAM, MEANT, Need, about, named
from agent_mail.overlap import Overlap, measure, table
from agent_mail.questions import cut, mistyped
from agent_mail.terms import terms
from agent_mail.threads import plan
from agent_mail.traffic import traffic
from agent_mail.world import FEWEST_MEMBERS, World
from hypothesis import given
from hypothesis import strategies as st

from harness.core.digest import of_documents, of_queries
from harness.core.errors import DatasetError
from harness.core.records import Document, Judgement, Qrels, Query, Scalar
from harness.corpus import card

SEED = 11
ASKED = ["keyword", "natural-language", "paraphrase", "typo", "prefix"]
SINGLE = [*ASKED, "identifier", "phrase", "hostile", "edited", "negative", "language"]


class Made:
    """A small data set, read whole."""

    def __init__(self, messages: int, queries: int) -> None:
        made = generate(Traffic(messages=messages, seed=SEED, queries=queries))
        self.documents = list(made.documents)
        self.queries, self.qrels = made.queries, made.qrels

    @property
    def by_id(self) -> dict[str, Document]:
        return {document.doc_id: document for document in self.documents}

    def slice(self, name: str) -> list[Query]:
        return [query for query in self.queries if name in query.slices]

    def relevant(self, query: Query, grade: int = 1) -> set[str]:
        grades = self.qrels.grades[query.query_id]
        return {doc_id for doc_id, found in grades.items() if found >= grade}


@pytest.fixture(scope="module")
def small() -> Made:
    return Made(2_000, 20)


def words(document: Document) -> str:
    return " ".join(re.findall(r"\w+", f"{document.title}\n{document.text}".casefold()))


@pytest.mark.slow
def test_the_same_settings_give_the_same_everywhere() -> None:
    made = Made(1_000, 6)
    assert of_documents(made.documents) == (
        "bc1d0d2aabb91c176178d7498561411aa6bffff17f47d21bdfa3b18aeab6e39d"
    )
    assert of_queries(made.queries) == (
        "608f7c7f96adb9f1fefd61326195c984db18cdeea81074e88e19a87b9814176b"
    )
    assert card.of_qrels(made.qrels) == (
        "15340a240a49ff75fa215e26c20b538dffc1583e5c17a3fb3adcc0ef0b964d74"
    )


@pytest.mark.slow
def test_another_seed_gives_other_messages_and_questions() -> None:
    one = generate(Traffic(messages=1_000, seed=1, queries=6))
    two = generate(Traffic(messages=1_000, seed=2, queries=6))
    assert of_documents(one.documents) != of_documents(two.documents)
    assert of_queries(one.queries) != of_queries(two.queries)


@pytest.mark.slow
def test_a_smaller_corpus_is_the_beginning_of_a_larger_one(small: Made) -> None:
    fewer = generate(Traffic(messages=1_001, seed=SEED, queries=6))
    assert list(fewer.documents) == small.documents[:1_001]


@pytest.mark.slow
def test_documents_are_messages_in_the_order_of_their_numbers(small: Made) -> None:
    assert len(small.documents) == 2_000
    numbers = [int(document.doc_id) for document in small.documents]
    assert all(before < after for before, after in pairwise(numbers))
    times = [int(document.metadata["created_ts"] or 0) for document in small.documents]
    assert all(before <= after for before, after in pairwise(times))
    for document in small.documents:
        recipients = str(document.metadata["recipients"]).split(",")
        assert document.metadata["sender"] not in recipients
        assert document.text.strip()
    assert {d.metadata["importance"] for d in small.documents} == {
        "low",
        "normal",
        "high",
        "urgent",
    }
    assert {d.metadata["ack_required"] for d in small.documents} == {True, False}
    assert len({d.metadata["language"] for d in small.documents}) == 7
    assert len({d.metadata["thread_id"] for d in small.documents}) > 300


@pytest.mark.slow
def test_every_slice_is_there(small: Made) -> None:
    for name in SINGLE:
        assert len(small.slice(name)) >= 20, name
    for name in NAMES:
        assert len(small.slice(f"filter-{name}")) == 10, name
    assert len({query.query_id for query in small.queries}) == len(small.queries)
    assert len({(q.text, tuple(q.params.items())) for q in small.queries}) == len(small.queries)


@pytest.mark.slow
def test_every_judged_document_exists(small: Made) -> None:
    assert {row.doc_id for row in small.qrels.rows()} <= small.by_id.keys()
    assert {query.query_id for query in small.queries} == set(small.qrels.query_ids)


@pytest.mark.slow
def test_negative_queries_are_answered_by_nothing_and_others_by_something(small: Made) -> None:
    negative = {query.query_id for query in small.slice("negative")}
    assert set(small.qrels.negative) == negative
    assert set(small.qrels.answerable) == set(small.qrels.query_ids) - negative


@pytest.mark.slow
def test_one_need_is_judged_alike_however_it_is_asked(small: Made) -> None:
    asked: dict[str | None, list[Query]] = {}
    for query in small.queries:
        if query.intent:
            asked.setdefault(query.intent, []).append(query)
    whole = [queries for queries in asked.values() if len(queries) == len(ASKED)]
    assert len(whole) >= 15
    for queries in whole:
        assert sorted(q.slices[0] for q in queries) == sorted(ASKED)
        grades = [dict(small.qrels.grades[q.query_id]) for q in queries]
        relevant = [{d: g for d, g in found.items() if g} for found in grades]
        assert all(found == relevant[0] for found in relevant)


@pytest.mark.slow
def test_a_phrase_is_in_all_messages_that_it_means_and_in_no_other(small: Made) -> None:
    for query in small.slice("phrase"):
        phrase = query.text.strip('"')
        holds = {d.doc_id for d in small.documents if f" {phrase} " in f" {words(d)} "}
        assert small.relevant(query) == holds


@pytest.mark.slow
def test_an_identifier_is_in_all_messages_that_it_means_and_in_no_other(small: Made) -> None:
    for query in small.slice("identifier"):
        name = next(word for word in query.text.lower().split() if re.search(r"[\d_/]", word))
        exact = re.compile(rf"(?<![\w./-]){re.escape(name)}(?![\w/-]|\.\w)")
        holds = {d.doc_id for d in small.documents if exact.search(f"{d.title}\n{d.text}".lower())}
        assert small.relevant(query, 2) == holds


@pytest.mark.slow
def test_what_fails_a_filter_is_not_relevant_and_some_of_it_is_judged(small: Made) -> None:
    for query in small.slice("filter"):
        passing = {d.doc_id for d in small.documents if passes(d, query)}
        assert small.relevant(query) <= passing
        judged = small.qrels.grades[query.query_id]
        assert judged.keys() - passing


def passes(document: Document, query: Query) -> bool:
    """Filter by what the document shows, as a stack has to."""
    shown = document.metadata
    recipients = str(shown["recipients"]).split(",")
    when = int(shown["created_ts"] or 0)
    wanted = dict(query.params)
    checks: dict[str, Callable[[Any], bool]] = {
        "ack_required": lambda value: shown["ack_required"] is value,
        "agent_name": lambda value: (
            value == shown["sender"] if wanted["direction"] == "outbox" else value in recipients
        ),
        "direction": lambda value: value in {"inbox", "outbox"},
        "importance": lambda value: shown["importance"] in value.split(","),
        "max_ts": lambda value: when <= value,
        "min_ts": lambda value: when >= value,
        "product_id": lambda value: shown["product_id"] == value,
        "project_id": lambda value: shown["project_id"] == value,
        "recipient_name": lambda value: value in recipients,
        "sender_name": lambda value: shown["sender"] == value,
        "thread_id": lambda value: shown["thread_id"] == value,
    }
    return all(checks[name](value) for name, value in wanted.items())


@pytest.mark.slow
def test_only_filter_queries_have_params(small: Made) -> None:
    assert {q.query_id for q in small.queries if q.params} == {
        q.query_id for q in small.slice("filter")
    }


@pytest.mark.slow
def test_what_was_sent_again_is_judged_as_the_first(small: Made) -> None:
    twins = 0
    for query in small.queries:
        if query.slices[0] not in ASKED:
            continue
        relevant = small.relevant(query, 2)
        for doc_id in relevant:
            document = small.by_id[doc_id]
            if document.title.startswith("Fwd:"):
                twins += 1
                body = document.text.partition("\n\n")[2]
                first = {d.doc_id for d in small.documents if d.text == body}
                assert first <= relevant
    assert twins > 10


@pytest.mark.slow
def test_the_changes_applied_to_the_base_give_the_corpus(small: Made) -> None:
    corpus = {document.doc_id: document for document in base(SEED, 2_000)}
    log = list(changes(SEED, 2_000))
    assert sum(change.document is None for change in log) >= 19
    assert sum(change.document is not None for change in log) >= 29
    for change in log:
        before = corpus.pop(change.doc_id)
        if change.document is not None:
            assert before != change.document
            corpus[change.doc_id] = change.document
    assert corpus == small.by_id


@pytest.mark.slow
def test_edited_queries_mean_messages_that_said_something_else_before(small: Made) -> None:
    edited = {change.doc_id for change in changes(SEED, 2_000) if change.document is not None}
    before = {document.doc_id: document for document in base(SEED, 2_000)}
    for query in small.slice("edited"):
        meant = small.relevant(query, 2) & edited
        assert meant
        assert all(small.by_id[d].text != before[d].text for d in meant)


@pytest.mark.slow
def test_too_few_messages_for_a_slice_are_told() -> None:
    with pytest.raises(DatasetError, match=r"no query of .* raise the messages"):
        generate(Traffic.model_construct(messages=3, seed=SEED, queries=4))


@pytest.mark.slow
def test_twenty_thousand_messages_have_all_slices() -> None:
    made = generate(Traffic(messages=20_000, seed=SEED, queries=12))
    found = card.slices(made.queries)
    assert {found[name] for name in (*ASKED, "identifier", "phrase", "edited")} == {12}
    assert {found[f"filter-{name}"] for name in NAMES} == {6}


@pytest.mark.slow
def test_messages_far_apart_are_drawn_without_keeping_those_between() -> None:
    stream = traffic(SEED, 1_000_000)
    first = next(iter(stream))
    later = next(islice(stream, 1_198, None))
    assert first.first.message_id == 1
    assert later.first.message_id == 1_200


FACT = Fact("outage", "event bus")
MESSAGE = Message(
    message_id=1,
    project_id=3,
    product_id=2,
    thread_id="br-2tnl",
    sender="Ann",
    recipients=("Bob", "Cy"),
    importance="high",
    ack_required=False,
    created_ts=1_000,
    language="en",
    subject="Re: br-2tnl",
    body="See src/bus/core/mod.rs:12, `flush_batch` and 3fa81bc. BR-2TNL.3 is next.",
    states=(FACT,),
    follows=(),
)


@pytest.mark.slow
def test_dice_are_the_same_on_every_python() -> None:
    dice = Dice("seed", 1)
    assert [dice.below(100) for _ in range(6)] == [87, 5, 14, 99, 89, 71]
    assert dice.some("abcdef", 3) == ["a", "c", "d"]
    assert Dice("seed", 2).below(10**9) != Dice("seed", 1).below(10**9)


@pytest.mark.slow
def test_keys_are_told_apart_where_their_texts_meet() -> None:
    assert Dice("a", "bc").share() != Dice("ab", "c").share()


@pytest.mark.slow
@given(st.integers(1, 50), st.integers(0, 60), st.integers())
def test_some_are_different_ones(size: int, count: int, seed: int) -> None:
    drawn = Dice(seed).some(range(size), count)
    assert len(set(drawn)) == len(drawn) == min(size, count)


@pytest.mark.slow
@given(st.lists(st.integers(0, 10**6), unique=True), st.integers(1, 20))
def test_lots_do_not_hang_on_the_order(numbers: list[int], limit: int) -> None:
    one, other = Lots[int](7, limit), Lots[int](7, limit)
    for number in numbers:
        one.offer(number, number)
    for number in reversed(numbers):
        other.offer(number, number)
    assert one.drawn() == other.drawn() == sorted(numbers, key=lambda n: mixed(7, n))[:limit]


@pytest.mark.slow
def test_lots_are_fair() -> None:
    counts: Counter[int] = Counter()
    for stream in range(400):
        lots = Lots[int](stream, 5)
        for number in range(20):
            lots.offer(number, number)
        counts.update(lots.drawn())
    assert min(counts.values()) > 60
    assert max(counts.values()) < 140


@pytest.mark.slow
@given(st.integers(0, 10_000))
def test_a_slip_changes_one_word_a_little(seed: int) -> None:
    text = "rollback previous release token broker"
    words, slipped = text.split(), mistyped(text, Dice(seed)).split()
    changed = [(a, b) for a, b in zip(words, slipped, strict=True) if a != b]
    assert len(changed) == 1
    ((before, after),) = changed
    assert before[0] == after[0]
    assert abs(len(before) - len(after)) <= 1


@pytest.mark.slow
def test_short_words_are_typed_well() -> None:
    assert mistyped("a b-5 dns", Dice(1)) == "a b-5 dns"


@pytest.mark.slow
@given(st.integers(0, 10_000))
def test_a_cut_text_ends_inside_a_word(seed: int) -> None:
    *rest, last = cut("old index rebuild", Dice(seed)).split()
    assert rest == ["old", "index"]
    stem = last.removesuffix("*")
    assert "rebuild".startswith(stem)
    assert 3 <= len(stem) < len("rebuild")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 1_000))
def test_a_filter_lets_the_message_pass_that_it_was_made_of(name: str, seed: int) -> None:
    wanted = params(name, MESSAGE, Dice(seed))
    assert wanted
    assert passes_agent_mail_parts(MESSAGE, wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    "wanted",
    [
        {"project_id": 2},
        {"product_id": 3},
        {"thread_id": "br-2tnm"},
        {"ack_required": True},
        {"importance": "low,urgent"},
        {"agent_name": "Bob", "direction": "outbox"},
        {"agent_name": "Ann", "direction": "inbox"},
        {"sender_name": "Bob"},
        {"recipient_name": "Ann"},
        {"min_ts": 1_001},
        {"max_ts": 999},
        {"project_id": 3, "max_ts": 999},
    ],
)
def test_a_filter_keeps_others_out(wanted: dict[str, Scalar]) -> None:
    assert not passes_agent_mail_parts(MESSAGE, wanted)


@pytest.mark.slow
def test_bounds_of_time_are_inclusive() -> None:
    assert passes_agent_mail_parts(MESSAGE, {"min_ts": 1_000, "max_ts": 1_000})


@pytest.mark.slow
def test_identifiers_are_read_from_the_text() -> None:
    assert MESSAGE.identifiers() == {
        "br-2tnl",
        "br-2tnl.3",
        "src/bus/core/mod.rs",
        "flush_batch",
        "3fa81bc",
    }


def graded(need: Need, *messages: Message) -> dict[int, int]:
    (found,) = judge([need], messages, 1)
    return dict(found.grades)


@pytest.mark.slow
def test_grades_are_what_messages_say() -> None:
    says = MESSAGE
    follows = replace(MESSAGE, message_id=2, states=(), follows=(FACT,))
    elsewhere = replace(MESSAGE, message_id=3, states=(Fact("outage", "mail relay"),))
    unrelated = replace(MESSAGE, message_id=4, states=())
    need = Need("q", ("s",), about(FACT))
    assert graded(need, says, follows, elsewhere, unrelated) == {1: 2, 2: 1, 3: 0}


@pytest.mark.slow
def test_a_message_outside_of_the_filter_has_grade_zero() -> None:
    other = replace(MESSAGE, message_id=2, project_id=9)
    need = Need("q", ("s",), about(FACT), params={"project_id": 3})
    assert graded(need, MESSAGE, other) == {1: 2, 2: 0}


@pytest.mark.slow
def test_a_part_of_a_ticket_is_related_and_a_look_alike_is_not() -> None:
    part = replace(MESSAGE, message_id=2, subject="", body="br-2tnl.4")
    alike = replace(MESSAGE, message_id=3, subject="", body="br-2tnk")
    need = Need("br-2tnl", ("s",), named("br-2tnl"))
    assert graded(need, MESSAGE, part, alike) == {1: 2, 2: 1, 3: 0}


@pytest.mark.slow
def test_only_so_many_others_are_judged() -> None:
    others = [replace(MESSAGE, message_id=n, states=(Fact("x", "event bus"),)) for n in range(50)]
    grades = graded(Need("q", ("s",), about(FACT)), *others)
    assert list(grades.values()) == [0] * CONTRAST


@pytest.mark.slow
def test_what_is_answered_is_not_negative() -> None:
    need = Need("q", ("s",), about(FACT), negative=True)
    (answered,) = judge([need], [MESSAGE], 1)
    (unanswered,) = judge([need], [replace(MESSAGE, states=(Fact("x", "event bus"),))], 1)
    (unjudged,) = judge([need], [], 1)
    assert (answered.fit, unanswered.fit, unjudged.fit) == (False, True, False)


@pytest.mark.slow
def test_a_phrase_is_found_up_to_the_last_word() -> None:
    message = replace(MESSAGE, subject="", body="So the lease ran out.\nToo soon!")
    for words in ("so the lease ran out", "ran out too soon"):
        asked = tuple(words.split())
        found = graded(Need("q", ("s",), {("says", *asked): MEANT}), message)
        assert bool(found) is (len(asked) == GRAM)
    last = ("lease", "ran", "out", "too", "soon")
    assert graded(Need("q", ("s",), {("says", *last): MEANT}), message) == {1: 2}


@pytest.mark.slow
def test_a_message_names_what_it_speaks_of() -> None:
    said = [posted.first for posted in traffic(5, 1_000) if posted.first.states]
    assert len(said) > 400
    for message in said:
        assert all(fact.component in message.text for fact in message.states)


@pytest.mark.slow
def test_an_edited_message_was_about_another_component_before() -> None:
    edited = [p for p in traffic(5, 1_000) if p.last and p.last is not p.first]
    assert len(edited) >= 14
    for posted in edited:
        assert posted.last is not None
        (before,), (after,) = posted.first.states, posted.last.states
        assert before.concept == after.concept
        assert before.component != after.component
        assert after.component not in posted.first.text
        assert posted.first.message_id == posted.last.message_id


WORDS = lexicon()
SLOT = re.compile(r"\{\w+\}")
MEANT_AGENT_MAIL_WORDS = 5
"""Letters that two forms of one word share."""


@pytest.fixture(scope="module")
def measured() -> dict[str, Overlap]:
    made = generate(Traffic(messages=2_000, seed=3, queries=20))
    return {row.slice: row for row in measure(made.documents, made.queries, made.qrels)}


def content(*texts: str) -> set[str]:
    return {word for text in texts for word in terms(SLOT.sub(" ", text)) if len(word) > 1}


def alike(left: set[str], right: set[str]) -> set[str]:
    """Words of ``left`` that ``right`` has too, in this or another form."""
    return {
        a
        for a in left
        for b in right
        if a == b
        or (
            min(len(a), len(b)) >= MEANT_AGENT_MAIL_WORDS
            and a[:MEANT_AGENT_MAIL_WORDS] == b[:MEANT_AGENT_MAIL_WORDS]
        )
    }


@pytest.mark.slow
def test_there_are_many_concepts_and_components() -> None:
    assert len(WORDS.concepts) >= 150
    assert len(WORDS.components) == 60
    assert len(WORDS.languages) == 6


@pytest.mark.slow
@pytest.mark.parametrize("concept", WORDS.concepts.values(), ids=lambda concept: concept.name)
def test_a_paraphrase_shares_no_word_with_what_documents_say(concept: Concept) -> None:
    said = content(concept.head, *concept.said)
    assert not alike(content(concept.other), said)
    assert not alike(content(concept.other), content(concept.asked))
    assert alike(content(concept.asked), said)
    assert len(set(concept.said)) >= 3
    assert all("{c}" in one for one in concept.said)


@pytest.mark.slow
def test_a_component_is_described_in_words_that_are_not_its_name() -> None:
    for component in WORDS.components.values():
        named = content(component.name, component.path.replace("_", " "))
        assert not alike(content(component.other), named), component.name


@pytest.mark.slow
def test_no_component_holds_the_name_of_another() -> None:
    names = list(WORDS.components)
    assert not [(a, b) for a in names for b in names if a != b and a in b]


@pytest.mark.slow
def test_what_is_held_out_is_never_written_about() -> None:
    said = content(*(text for c in WORDS.concepts.values() for text in (c.head, *c.said)))
    for asked in WORDS.heldout:
        assert len(content(asked) - said) >= len(content(asked)) / 2, asked


@pytest.mark.slow
def test_languages_translate_the_same_concepts_each() -> None:
    for language in WORDS.languages.values():
        assert len(language.concepts) == 8
        assert language.concepts.keys() <= WORDS.concepts.keys()
        assert all("{c}" in one for said in language.concepts.values() for one in said.said)


@pytest.mark.slow
def test_paraphrases_share_nearly_nothing_with_their_answers(
    measured: dict[str, Overlap],
) -> None:
    assert measured["paraphrase"].covered < 0.03
    assert measured["paraphrase"].jaccard < 0.005
    assert measured["paraphrase"].without > 0.85


@pytest.mark.slow
def test_identifiers_and_phrases_are_in_their_answers(measured: dict[str, Overlap]) -> None:
    assert measured["identifier"].covered > 0.8
    assert measured["phrase"].covered == 1.0


@pytest.mark.slow
def test_keywords_lie_between_and_typos_below_them(measured: dict[str, Overlap]) -> None:
    keyword = measured["keyword"].covered
    assert 0.5 < keyword < 0.9
    assert measured["typo"].covered < keyword
    assert measured["prefix"].covered < keyword
    assert measured["natural-language"].covered < keyword


@pytest.mark.slow
def test_a_filter_and_not_the_words_tells_the_answers_apart(measured: dict[str, Overlap]) -> None:
    contrast = measured["filter"].contrast
    assert contrast is not None
    assert abs(measured["filter"].covered - contrast) < 0.15


@pytest.mark.slow
def test_overlap_is_counted_by_hand() -> None:
    documents = [
        Document("1", "Red apple", "on the table"),
        Document("2", "", "green pear"),
        Document("3", "", "red pear"),
    ]
    queries = [Query("a", "the red apple pie", ("s",)), Query("b", "kiwi", ("s", "t"))]
    rows = [("a", "1", 2), ("a", "3", 1), ("a", "2", 0), ("b", "2", 1)]
    found = measure(documents, queries, Qrels.of(Judgement(*row) for row in rows))
    both, single = found
    assert both == Overlap("s", 2, (2 / 3 + 0) / 2, (2 / 4 + 0) / 2, 0.5, 0.0)
    assert single == Overlap("t", 1, 0.0, 0.0, 1.0, None)
    assert table(found).splitlines()[2:] == [
        "| s | 2 | 0.33 | 0.250 | 0.50 | 0.00 |",
        "| t | 1 | 0.00 | 0.000 | 1.00 |  |",
    ]


@pytest.mark.slow
def test_negative_queries_have_no_overlap_to_measure() -> None:
    qrels = Qrels.of([Judgement("a", "1", 0)])
    assert measure([Document("1", "", "x")], [Query("a", "x", ("s",))], qrels) == ()


@pytest.mark.slow
def test_terms_are_words_without_stop_words_and_pairs_of_signs() -> None:
    assert terms("What of the LEASE, br-2tnl?") == ["lease", "br", "2tnl"]
    assert terms("磁盘已满 disk") == ["磁盘", "盘已", "已满", "disk"]
    assert terms("锁") == ["锁"]


@pytest.mark.slow
def test_the_page_shows_the_overlap_of_the_data_set_as_it_is() -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "datasets" / "agent-mail.md").read_text(encoding="utf-8")
    made = generate(Traffic(messages=5_000, seed=20261121, queries=40))
    assert table(measure(made.documents, made.queries, made.qrels)) in page


def test_a_world_is_drawn_from_its_seed() -> None:
    assert World.of(SEED) == World.of(SEED)
    assert World.of(SEED) != World.of(SEED + 1)


def test_every_project_has_members_and_a_product() -> None:
    world = World.of(SEED)
    assert [p.project_id for p in world.projects] == list(range(1, len(world.projects) + 1))
    for project in world.projects:
        assert len(set(project.members)) == len(project.members) >= FEWEST_MEMBERS
        assert 1 <= project.product_id <= len(world.products)


def test_a_conversation_opens_with_its_fact_and_keeps_to_its_room() -> None:
    world, words = World.of(SEED), lexicon()
    for seed in range(50):
        dice = Dice(seed)
        thread = plan(world, words, dice, None, 3)
        written = list(thread.written(dice))
        assert 1 <= len(written) == thread.length <= 3
        assert thread.fact in written[0].states


def test_each_kind_has_messages_to_ask_of_and_not_more_than_spare() -> None:
    chosen = choose(traffic(SEED, 1_000), SEED, per_slice=3)
    assert set(chosen) == set(KINDS)
    for kind, messages in chosen.items():
        assert 0 < len(messages) <= 3 * SPARE, kind


def test_no_question_is_asked_twice() -> None:
    asked = list(needs(choose(traffic(SEED, 1_000), SEED, per_slice=3), SEED))
    keys = [(need.text, tuple(sorted(need.params.items()))) for need in asked]
    assert len(keys) == len(set(keys)) > 0
