"""Operators and languages mean the same in every stack."""

from __future__ import annotations

import random
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, combinations, permutations
from pathlib import Path
from shutil import which
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.engine import Engine, Searcher
from harness.core.records import Document
from harness_engines import registry
from harness_engines import registry as arms
from harness_engines.lexical.grammar import mask, parse
from harness_engines.lexical.terms import Clause, Occur
from harness_engines.stacks.code import arm as code
from harness_engines.stacks.documents import arm as documents
from harness_engines.stacks.text import blend, dense, fts5, hybrid, tantivy
from harness_engines.stacks.writing import arm as writing
from tests.make.code import BLEND, SETTINGS
from tests.make.notes import SETTINGS as NOTES
from tests.source import ROOT
from tests.thinned import examples

WORDS = ("ant", "bee", "cat")
TEXTS = [
    list(order)
    for size in range(4)
    for some in combinations(WORDS, size)
    for order in permutations(some)
]
DOCUMENTS = tuple(
    Document(f"{'-'.join(title)}|{'-'.join(text)}", " ".join(title), " ".join(text))
    for title, text in chain(
        (([], text) for text in TEXTS), ((text, ["dog"]) for text in TEXTS), [(["ant"], ["bee"])]
    )
)
JOINED = ("phrase", "words", "both")


def engines(joined: str) -> Mapping[str, Engine]:
    usual = {"title_weight": 2.0, "text_weight": 1.0, "joined": joined}
    return {
        "fts5": fts5.engine({**usual, "tokenize": "unicode61"}, None),  # type: ignore[arg-type]  # keeps nothing
        **{
            f"tantivy over {over}": tantivy.engine(
                {**usual, "language": "none", "bm25_over": over},
                None,  # type: ignore[arg-type]  # keeps nothing
            )
            for over in ("document", "fields")
        },
    }


@dataclass(frozen=True)
class Opened:
    """One setting of ``joined``, in every lexical engine."""

    joined: str
    searchers: Mapping[str, Searcher]

    def matched(self, text: str) -> dict[str, frozenset[str]]:
        """Documents that each engine shows."""
        return {
            name: frozenset(hit.doc_id for hit in searcher.search(text, 1_000).hits)
            for name, searcher in self.searchers.items()
        }


@contextmanager
def opening(
    joined: str, folders: pytest.TempPathFactory, documents: Sequence[Document]
) -> Iterator[Opened]:
    """Index documents in every lexical engine."""
    with ExitStack() as stack:
        searchers = {}
        for name, engine in engines(joined).items():
            folder = folders.mktemp("index")
            engine.build(documents, folder)
            searchers[name] = stack.enter_context(engine.open(folder))
        yield Opened(joined, searchers)


@pytest.fixture(scope="module", params=JOINED)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    with opening(request.param, tmp_path_factory, DOCUMENTS) as made:
        yield made


def has(document: Document, clause: Clause, joined: str) -> bool:
    """Say by looking at it whether a document satisfies a clause."""
    fields = [document.title.split(), document.text.split()]
    words = [word.lower() for word in clause.words]
    if clause.begun:
        return any(word.startswith(words[0]) for field in fields for word in field)
    phrase = any(
        field[at : at + len(words)] == words for field in fields for at in range(len(field))
    )
    is_apart = any(mark in clause.text for mark in ":([<") and clause.occur is not Occur.NOT
    if clause.quoted or (joined == "phrase" and not is_apart):
        return phrase
    return phrase or any(word in field for word in words for field in fields)


def by_definition(text: str, joined: str) -> frozenset[str]:
    """Documents that ought to match: all that must, none that must not, else any that may.

    A text of refusals alone means all that it does not refuse.
    """
    tree = parse(text)
    every = DOCUMENTS if tree.parts else ()
    return frozenset(
        one.doc_id
        for one in every
        if mask(tree, lambda clause: has(one, clause, joined), True)  # noqa: B023, FBT003  at once
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "ant",
        "ant bee",
        "ant OR bee",
        "ant AND bee",
        "ant AND NOT bee",
        "ant NOT bee",
        "+ant bee",
        "+ant +bee cat",
        "ant -bee",
        "-ant",
        "-ant -bee",
        '"ant bee"',
        '"bee ant cat"',
        '+"ant bee" cat',
        'cat -"ant bee"',
        "ant_bee",
        "+ant_bee",
        "cat -ant_bee",
        "cat NOT ant-bee",
        "ant_bee AND cat",
        "+ant -ant",
        "eel",
        "eel ant",
        "+eel ant",
        "ant -eel",
        "cat NOT (ant OR bee)",
        "cat NOT (ant AND bee)",
        "ant OR bee AND cat",
        "(ant OR bee) AND cat",
        "ant OR NOT bee",
        "(ant bee) -(cat ant_bee)",
        "be*",
        "+a* -c*",
    ],
)
def test_each_way_of_asking_matches_by_definition(opened: Opened, text: str) -> None:
    matched = opened.matched(text)
    assert matched == dict.fromkeys(matched, by_definition(text, opened.joined))


NAMES = ("ant_bee", "bee-cat-ant", "eel", "Ant", "title:ant", "cat(bee", "ant[cat", "bee<ant")
term = st.sampled_from([*WORDS, *NAMES, '"ant bee"', '"bee cat"'])
piece = st.builds(str.__add__, st.sampled_from(["", "", "+", "-"]), term)
operator = st.sampled_from(["AND", "OR", "NOT", "(", ")"])
asked = st.lists(piece | operator, max_size=9).map(" ".join)


@pytest.mark.slow
@settings(
    max_examples=examples(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=asked)
def test_any_question_matches_by_definition_in_every_engine(opened: Opened, text: str) -> None:
    matched = opened.matched(text)
    assert matched == dict.fromkeys(matched, by_definition(text, opened.joined))


@pytest.mark.slow
def test_both_puts_the_phrase_before_its_words(tmp_path_factory: pytest.TempPathFactory) -> None:
    for name, engine in engines("both").items():
        folder = tmp_path_factory.mktemp("index")
        engine.build(DOCUMENTS, folder)
        with engine.open(folder) as searcher:
            texts = {document.doc_id: document for document in DOCUMENTS}
            shown = [texts[hit.doc_id] for hit in searcher.search("ant_bee", 1_000).hits]
        pair = [d for d in shown if sorted(d.text.split()) == ["ant", "bee"] and not d.title]
        assert [d.text for d in pair] == ["ant bee", "bee ant"], name


WORDS_ANY_LANGUAGE = (
    *("naïve", "cafe", "Café", "Straße", "ﬁne", "smørrebrød", "łódź", "co\xadoperate", "x²"),
    *("елка", "ЁЛКА", "σοφός", "ΣΟΦΟΣ", "हिन्दी", "हिन्दू", "שלום", "שָׁלוֹם", "سلام", "سَلَام"),
    *("東京大学", "大学", "京都", "ｶﾞｲﾄﾞ", "ガイド", "猫", "แมวน้ำ", "น้ำ", "한국어", "한국"),
    *("👍", "👍🏽", "👩\u200d💻", "2020年", "read_csv", "\uff41\uff42\uff43", "abc", "३०", "30"),
)


def some(seed: int) -> list[str]:
    dice = random.Random(seed)
    return [dice.choice(WORDS_ANY_LANGUAGE) for _ in range(dice.randrange(1, 6))]


DOCUMENTS_ANY_LANGUAGE = tuple(
    Document(f"d{seed:03}", some(-seed)[0], " ".join(some(seed))) for seed in range(1, 150)
)


@pytest.fixture(scope="module", params=JOINED)
def languages(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    with opening(request.param, tmp_path_factory, DOCUMENTS_ANY_LANGUAGE) as made:
        yield made


def found(opened: Opened, text: str) -> frozenset[str]:
    """Ask every engine, and see that all find the same."""
    matched = opened.matched(text)
    assert len(set(matched.values())) == 1, matched
    return matched["fts5"]


piece_any_language = st.builds(
    lambda sign, word, quoted: sign + (f'"{word}"' if quoted else word),
    st.sampled_from(["", "", "", "+", "-"]),
    st.sampled_from(WORDS_ANY_LANGUAGE)
    | st.text("".join(WORDS_ANY_LANGUAGE), min_size=1, max_size=6),
    st.booleans(),
)


@settings(max_examples=examples(500), deadline=None)
@given(text=st.lists(piece_any_language, min_size=1, max_size=4).map(" ".join))
def test_every_engine_finds_the_same(languages: Opened, text: str) -> None:
    by_form = {found(languages, unicodedata.normalize(kind, text)) for kind in ("NFC", "NFD")}
    assert len(by_form) == 1


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("cafe", "CAFÉ"),
        ("strasse", "Straße"),
        ("fine", "ﬁne"),
        ("cooperate", "co\xadoperate"),
        ("\uff21\uff22\uff23", "abc"),
        ("ёлка", "Елка"),
        ("σοφος", "ΣΟΦΌΣ"),
        ("שלום", "שָׁלוֹם"),
        ("سلام", "سَلَام"),
        ("ガイド", "ｶﾞｲﾄﾞ"),
        ("👍", "👍🏿"),
    ],
)
def test_what_looks_alike_is_found_alike(languages: Opened, text: str, same: str) -> None:
    assert found(languages, text)
    assert found(languages, text) == found(languages, same)


def has_any_language(text: str) -> frozenset[str]:
    return frozenset(d.doc_id for d in DOCUMENTS_ANY_LANGUAGE if text in f"{d.title} {d.text}")


@pytest.mark.parametrize("text", ["東京", "大学", "น้ำ", "한국", "हिन्दी", "हिन्दू"])
def test_a_part_of_a_run_without_spaces_is_found(languages: Opened, text: str) -> None:
    assert found(languages, f"+{text}") == has_any_language(text) != frozenset()
    every = frozenset(d.doc_id for d in DOCUMENTS_ANY_LANGUAGE)
    assert found(languages, "-東京大学") == every - has_any_language("東京大学")


BOTH, BUDGET, TRAVEL, PLAN = "both", "budget", "travel", "plan"
TEXTS_OPERATORS = {
    BOTH: "The budget for travel is spent.",
    BUDGET: "The yearly budget and its costs.",
    TRAVEL: "To travel by train, whatever the budgeted hour.",
    PLAN: "Deploy the release plan on Monday, then plan the next release.",
    "reverse": "A plan of release notes, and costs.",
}
DOCUMENTS_OPERATORS = tuple(Document(doc_id, "", text) for doc_id, text in TEXTS_OPERATORS.items())
WORDS_OPERATORS = {"tier": "free", "embedder": "", "sparse": "", "max_tokens": 64}
FORMULA = {"fusion": "specification"}


def of_file(name: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((arms.FOLDER / f"{name}.toml").read_text())["settings"]
    return found


def engine(name: str, cache: Path) -> Engine:
    """Make one small engine of each stack that knows words; vectors are hashes."""
    if name == "writing":
        return writing.engine({**NOTES, "rerank": False}, cache)
    if name == "documents":
        return documents.engine({**WORDS_OPERATORS, **FORMULA}, cache)
    if name.startswith("code"):
        backend = name.removeprefix("code over ")
        return code.engine(
            {**SETTINGS, "backend": backend, "embedder": "hash", "search": BLEND}, cache
        )
    given = of_file(name)
    if name == "hybrid-rrf":
        given["legs"]["semantic"]["settings"]["embedder"] = "hash"
    made = {"dense": dense.engine, "hash-hybrid": blend.engine, "hybrid-rrf": hybrid.engine}
    lexical = fts5.engine if name.startswith("fts5") else tantivy.engine
    return made.get(name, lexical)(given | ({"embedder": "hash"} if name == "dense" else {}), cache)


@pytest.fixture(
    scope="module",
    params=[
        *("fts5", "fts5-porter", "tantivy", "tantivy-stem", "hash-hybrid", "hybrid-rrf", "dense"),
        *("writing", "documents", "code over sqlite", "code over tantivy"),
    ],
)
def searcher(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Searcher]:
    made = engine(request.param, tmp_path_factory.mktemp("cache"))
    index = tmp_path_factory.mktemp("index")
    made.build(DOCUMENTS_OPERATORS, index)
    with ExitStack() as stack:
        yield stack.enter_context(made.open(index))


EVERY = set(TEXTS_OPERATORS)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("-deploy", EVERY - {PLAN}, EVERY - {PLAN}),
        ("-travel -release", {BUDGET}, {BUDGET}),
        ("budget -travel", {BUDGET}, EVERY - {BOTH, TRAVEL}),
        ("budget costs -travel", {BUDGET}, EVERY - {BOTH, TRAVEL}),
        ("+travel budget costs", {BOTH}, {BOTH, TRAVEL}),
        ("+nowhere budget", set(), set()),
        ('+"release plan"', {PLAN}, {PLAN}),
        ('release plan -"release plan"', set(), EVERY - {PLAN}),
        ('"release plan"', {PLAN}, {PLAN}),
        ('"plan of release"', {"reverse"}, {"reverse"}),
        ('"release plan" -monday', set(), set()),
    ],
)
def test_signs_and_phrases_hold_in_each_stack(
    searcher: Searcher, text: str, least: set[str], most: set[str]
) -> None:
    assert least <= {hit.doc_id for hit in searcher.search(text, 10).hits} <= most


WORDS_BOOLEAN = ("ant", "bee", "cat", "dog", "eel")
HELD = {
    f"d{at}": frozenset(some)
    for at, some in enumerate(c for size in range(5) for c in combinations(WORDS_BOOLEAN[:4], size))
}
DOCUMENTS_BOOLEAN = tuple(
    Document(d, "", " ".join([*sorted(held), "sea"])) for d, held in HELD.items()
)
SETS = ("fts5", "fts5-porter", "tantivy", "tantivy-stem", "mail-fts5", "mail-tantivy", "writing")
PARTS = ("documents", "code over sqlite", "code over tantivy")
"""Show what the rule allows and has a word that is looked for."""
VECTORS = ("dense", "hash-hybrid", "hybrid-rrf")
OUTSIDE = {"lucene": "lucene/lucene.toml", "postgres": "postgres/postgres.toml"}
Rule = Callable[[frozenset[str]], bool]


class Asked(NamedTuple):
    """A query, how close its operator binds, what it means, and the words it looks for or not."""

    text: str
    binds: int
    rule: Rule
    wanted: frozenset[str]
    refused: frozenset[str] = frozenset()


def within(one: Asked, binds: int) -> str:
    return one.text if one.binds >= binds else f"({one.text})"


def made(rng: random.Random, deep: int) -> Asked:
    """Make a query; parentheses stand only where its meaning needs them."""
    if not deep or rng.random() < 0.25:
        word = rng.choice(WORDS_BOOLEAN)
        return Asked(word, 3, lambda held: word in held, frozenset({word}))
    a, b = made(rng, deep - 1), made(rng, deep - 1)
    both = a.wanted | b.wanted, a.refused | b.refused
    match rng.choice(("AND", "OR", "NOT", "AND NOT")):
        case "AND":
            text = f"{within(a, 2)} AND {within(b, 2)}"
            return Asked(text, 1, lambda held: a.rule(held) and b.rule(held), *both)
        case "OR":
            text = f"{within(a, 0)} OR {within(b, 0)}"
            return Asked(text, 0, lambda held: a.rule(held) or b.rule(held), *both)
        case "NOT":
            text = f"NOT {within(a, 2)}"
            return Asked(text, 1, lambda held: not a.rule(held), a.refused, a.wanted)
    text, but = (
        f"{within(a, 2)} AND NOT {within(b, 2)}",
        (a.wanted | b.refused, a.refused | b.wanted),
    )
    return Asked(text, 1, lambda held: a.rule(held) and not b.rule(held), *but)


def queries(many: int) -> list[Asked]:
    rng = random.Random(20261128)
    return [made(rng, rng.randint(1, 4)) for _ in range(many)]


@pytest.fixture(scope="module", params=[*SETS, *PARTS, *VECTORS, *OUTSIDE])
def opened_boolean(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Searcher]]:
    name, cache = request.param, tmp_path_factory.mktemp("cache")
    if name == "lucene" and not (which("java") and [*Path("/usr/share/java").glob("lucene-c*")]):
        pytest.skip("needs Lucene: apt-get install default-jre-headless liblucene8-java")
    outside = OUTSIDE.get(name)
    if outside or name.startswith("mail"):
        arm = str(ROOT / "examples" / outside) if outside else name
        found = registry.load(arm, cache).engine
    else:
        found = engine(name, cache)
    index = tmp_path_factory.mktemp("index")
    found.build(DOCUMENTS_BOOLEAN, index)
    with ExitStack() as stack:
        yield name, stack.enter_context(found.open(index))


@pytest.mark.slow
def test_a_query_finds_what_it_says(opened_boolean: tuple[str, Searcher]) -> None:
    name, searcher = opened_boolean
    for asked in queries(examples(1_000)):
        shown = {hit.doc_id for hit in searcher.search(asked.text, 100).hits}
        allowed = {doc_id for doc_id, held in HELD.items() if asked.rule(held)}
        assert shown <= allowed, asked.text
        if name in SETS or name in OUTSIDE:
            assert shown == allowed, asked.text
        if name in PARTS:
            assert shown >= {d for d in allowed if HELD[d] & (asked.wanted or HELD[d])}, asked.text


@pytest.mark.slow
def test_the_beginning_of_a_word_finds_what_begins_so(opened_boolean: tuple[str, Searcher]) -> None:
    name, searcher = opened_boolean
    for text, word in (("be*", "bee"), ("+do* se*", "dog"), ("se* -ca*", "")):
        shown = {hit.doc_id for hit in searcher.search(text, 100).hits}
        meant = {d for d, held in HELD.items() if (word in held if word else "cat" not in held)}
        assert shown <= meant or (name in VECTORS and text == "be*"), text
        assert shown >= meant or name in VECTORS, text


@pytest.mark.slow
def test_brackets_and_fields_that_mean_nothing_are_text(
    opened_boolean: tuple[str, Searcher],
) -> None:
    name, searcher = opened_boolean
    rng = random.Random(20261130)
    first = "{}:{}", "{}({}", "{}({})", "{}[{}]", "({}){}", "{}<{}>"
    forms = (*first, "{}\uff08{}", "+{}:{}", "{}:({}")
    for _ in range(examples(200)):
        pair = rng.sample(WORDS_BOOLEAN, 2)
        text = rng.choice(forms).format(*pair)
        shown = {hit.doc_id for hit in searcher.search(text, 100).hits}
        meant = {d for d, held in HELD.items() if held.intersection(pair)}
        assert shown >= meant, text
        assert shown == meant or name in VECTORS, text


@pytest.mark.slow
def test_an_operator_that_binds_nothing_is_a_word(opened_boolean: tuple[str, Searcher]) -> None:
    _, searcher = opened_boolean
    rng = random.Random(20261129)

    def shown(text: str) -> set[str]:
        return {hit.doc_id for hit in searcher.search(text, 100).hits}

    for asked in queries(examples(1_000)):
        before = rng.choice(("", "", "AND ", "OR "))
        behind = rng.choice((" AND", " OR", " NOT", " AND NOT", " OR AND"))
        said = shown(f"{before}{asked.text}{behind}")
        assert said == shown(f"{before.lower()}{asked.text}{behind.lower()}"), asked.text
        if "NOT" not in asked.text:
            assert said >= shown(asked.text), asked.text


NAMED = {
    "c": "A letter C, a grade of C, and C once more.",
    "c-plus": "Templates of C++ are read twice by a compiler.",
    "c-plus-new": "A loop of C++17 reads what it shows.",
    "c-sharp": "Whoever writes C# is wanted in Bergen.",
    "net": "A net of ropes, and a net of wire.",
    "dot-net": "Programs of .NET need a runtime, and somebody who keeps it.",
    "ignored": "Names in .gitignore are left out.",
    "ignore": "A gitignore is no gitignore where nobody reads it.",
    "elided": "Toute la ville regarde l'avion qui passe au loin.",
    "curly": "Le bruit de l\u2019avion r\u00e9veille les enfants du quartier.",
    "bare": "Un avion bleu, un avion rouge.",
    "version": "With release 2.4.1 the daemon starts by itself.",
    "numbers": "Take 4 of them, or 2, or 1, with a release.",
    "address": "Write to jane.doe@corp.example before noon.",
    "words": "Jane met a doe; a corp is no example, an example no corp, says Jane.",
    "host": "Apply at forms.corp.example for leave.",
    "forms": "An example of a corp that has forms, and forms.",
    "fifth": "Numbers from .5 to 5.",
}
NAMED_DOCUMENTS = tuple(Document(doc_id, "", text) for doc_id, text in NAMED.items())
ARMS = (
    *("fts5", "fts5-porter", "tantivy", "tantivy-stem", "writing", "documents"),
    *("code over sqlite", "code over tantivy", "mail-fts5", "mail-tantivy"),
)
FIRST = {
    "C#": "c-sharp",
    "c#": "c-sharp",
    "C++17": "c-plus-new",
    ".NET": "dot-net",
    ".net,": "dot-net",
    ".gitignore": "ignored",
    "l\u2019avion bruit": "curly",
    "2.4.1": "version",
    "jane.doe@corp.example": "address",
    "forms.corp.example": "host",
}


@pytest.fixture(scope="module", params=ARMS)
def named(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Searcher]:
    name, cache = request.param, tmp_path_factory.mktemp("cache")
    mail = name.startswith("mail")
    made = registry.load(name, cache).engine if mail else engine(name, cache)
    index = tmp_path_factory.mktemp("index")
    made.build(NAMED_DOCUMENTS, index)
    with ExitStack() as stack:
        yield stack.enter_context(made.open(index))


def shown_named(named: Searcher, text: str) -> list[str]:
    return [hit.doc_id for hit in named.search(text, 30).hits]


@pytest.mark.parametrize("typed", FIRST)
def test_a_name_is_found_first_where_it_stands_as_typed(named: Searcher, typed: str) -> None:
    assert shown_named(named, typed)[:1] == [FIRST[typed]]


def test_a_sign_is_part_of_a_name_and_an_article_is_not(named: Searcher) -> None:
    assert set(shown_named(named, "C++")[:2]) == {"c-plus", "c-plus-new"}
    assert shown_named(named, "+C#") == ["c-sharp"]
    assert set(shown_named(named, "-C++")) == set(NAMED) - {"c-plus", "c-plus-new"}
    assert set(shown_named(named, "net -.NET")) == {"net"}
    every = {"elided", "curly", "bare"}
    for typed in ("avion", "l'avion", "l\u2019avion", "+l'avion", "L'AVION"):
        assert set(shown_named(named, typed)) == every, typed
    assert set(shown_named(named, "l'avion")[:2]) == every - {"bare"}
    assert set(shown_named(named, "-l'avion")) == set(NAMED) - every
