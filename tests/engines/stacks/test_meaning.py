"""Operators and languages mean the same in every stack."""

import random
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from shutil import which
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

from harness.core.engine import Engine, Searcher
from harness.core.records import Document
from harness_engines import registry
from harness_engines.stacks.code import arm as code
from harness_engines.stacks.documents import arm as documents
from harness_engines.stacks.text import blend, dense, fts5, hybrid, tantivy
from harness_engines.stacks.writing import arm as writing
from tests.make.code import BLEND, SETTINGS
from tests.make.models import NOTES_SETTINGS as NOTES
from tests.source import ROOT
from tests.thinned import examples

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


piece_any_language = st.builds(
    lambda sign, word, quoted: sign + (f'"{word}"' if quoted else word),
    st.sampled_from(["", "", "", "+", "-"]),
    st.sampled_from(WORDS_ANY_LANGUAGE)
    | st.text("".join(WORDS_ANY_LANGUAGE), min_size=1, max_size=6),
    st.booleans(),
)


def has_any_language(text: str) -> frozenset[str]:
    return frozenset(d.doc_id for d in DOCUMENTS_ANY_LANGUAGE if text in f"{d.title} {d.text}")


BOTH, BUDGET, TRAVEL, PLAN = "both", "budget", "travel", "plan"
TEXTS_OPERATORS = {
    BOTH: "The budget for travel is spent.",
    BUDGET: "The yearly budget and its costs.",
    TRAVEL: "To travel by train, whatever the budgeted hour.",
    PLAN: "Deploy the release plan on Monday, then plan the next release.",
    "reverse": "A plan of release notes, and costs.",
}
DOCUMENTS_OPERATORS = tuple(Document(doc_id, "", text) for doc_id, text in TEXTS_OPERATORS.items())


def engine(name: str, cache: Path) -> Engine:
    """Make one small engine of each stack that knows words; vectors are hashes."""
    if name == "writing":
        return writing.engine({**NOTES, "rerank": False}, cache)
    if name == "documents":
        words = {"tier": "free", "embedder": "", "sparse": "", "max_tokens": 64}
        return documents.engine({**words, "fusion": "specification"}, cache)
    if name.startswith("code"):
        backend = name.removeprefix("code over ")
        return code.engine(
            {**SETTINGS, "backend": backend, "embedder": "hash", "search": BLEND}, cache
        )
    given = tomllib.loads((registry.FOLDER / f"{name}.toml").read_text())["settings"]
    if name == "hybrid-rrf":
        given["legs"]["semantic"]["settings"]["embedder"] = "hash"
    made = {"dense": dense.engine, "hash-hybrid": blend.engine, "hybrid-rrf": hybrid.engine}
    lexical = fts5.engine if name.startswith("fts5") else tantivy.engine
    return made.get(name, lexical)(given | ({"embedder": "hash"} if name == "dense" else {}), cache)


LEXICAL = ("fts5", "fts5-porter", "tantivy", "tantivy-stem")
VECTORS = ("dense", "hash-hybrid", "hybrid-rrf")
PARTS = ("documents", "code over sqlite", "code over tantivy")
"""Show what the rule allows and has a word that is looked for."""
MAIL = ("mail-fts5", "mail-tantivy")
SETS = (*LEXICAL, *MAIL, "writing")
OUTSIDE = {"lucene": "lucene/lucene.toml", "postgres": "postgres/postgres.toml"}


@pytest.fixture(scope="module")
def searcher(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Searcher]:
    name, documents = request.param
    with opened(name, documents, tmp_path_factory) as made:
        yield made


def of(documents: Sequence[Document], *names: str) -> pytest.MarkDecorator:
    """Try a test with the ``searcher`` of each of these stacks over documents."""
    params = [pytest.param((name, documents), id=name) for name in names]
    return pytest.mark.parametrize("searcher", params, indirect=True)


@contextmanager
def opened(
    name: str, documents: Sequence[Document], folders: pytest.TempPathFactory
) -> Iterator[Searcher]:
    """Open a small index of a stack, of an arm of mail, or of an example that needs more."""
    cache, index, outside = folders.mktemp("cache"), folders.mktemp("index"), OUTSIDE.get(name)
    if name == "lucene" and not (which("java") and [*Path("/usr/share/java").glob("lucene-c*")]):
        pytest.skip("needs Lucene: apt-get install default-jre-headless liblucene8-java")
    if outside or name.startswith("mail"):
        arm = str(ROOT / "examples" / outside) if outside else name
        made = registry.load(arm, cache).engine
    else:
        made = engine(name, cache)
    made.build(documents, index)
    with made.open(index) as searcher:
        yield searcher


def found(searcher: Searcher, text: str) -> set[str]:
    return {hit.doc_id for hit in searcher.search(text, 1_000).hits}


LANGUAGES = of(DOCUMENTS_ANY_LANGUAGE, "fts5", "tantivy")


@LANGUAGES
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
def test_what_looks_alike_is_found_alike(searcher: Searcher, text: str, same: str) -> None:
    assert found(searcher, text)
    assert found(searcher, text) == found(searcher, same)


@LANGUAGES
@pytest.mark.parametrize("text", ["東京", "大学", "น้ำ", "한국", "हिन्दी", "हिन्दू"])
def test_a_part_of_a_run_without_spaces_is_found(searcher: Searcher, text: str) -> None:
    assert found(searcher, f"+{text}") == has_any_language(text) != frozenset()
    every = {d.doc_id for d in DOCUMENTS_ANY_LANGUAGE}
    assert found(searcher, f"-{text}") == every - has_any_language(text)


EVERY = set(TEXTS_OPERATORS)


@of(DOCUMENTS_OPERATORS, *LEXICAL, *VECTORS, *PARTS, "writing")
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
    assert least <= found(searcher, text) <= most


WORDS_BOOLEAN = ("ant", "bee", "cat", "dog", "eel")
HELD = {
    f"d{at}": frozenset(some)
    for at, some in enumerate(c for size in range(5) for c in combinations(WORDS_BOOLEAN[:4], size))
}
DOCUMENTS_BOOLEAN = tuple(
    Document(d, "", " ".join([*sorted(held), "sea"])) for d, held in HELD.items()
)
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


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SETS, *PARTS, *VECTORS, *OUTSIDE])
def test_a_query_finds_what_it_says(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with opened(name, DOCUMENTS_BOOLEAN, tmp_path_factory) as searcher:
        for asked in queries(examples(1_000)):
            shown = found(searcher, asked.text)
            allowed = {doc_id for doc_id, held in HELD.items() if asked.rule(held)}
            assert shown <= allowed, asked.text
            if name in SETS or name in OUTSIDE:
                assert shown == allowed, asked.text
            if name in PARTS:
                assert shown >= {d for d in allowed if HELD[d] & (asked.wanted or HELD[d])}, (
                    asked.text
                )


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


EVERY_NAMED = of(NAMED_DOCUMENTS, *SETS, *PARTS)


def shown_named(searcher: Searcher, text: str) -> list[str]:
    return [hit.doc_id for hit in searcher.search(text, 30).hits]


@EVERY_NAMED
@pytest.mark.parametrize("typed", FIRST)
def test_a_name_is_found_first_where_it_stands_as_typed(searcher: Searcher, typed: str) -> None:
    assert shown_named(searcher, typed)[:1] == [FIRST[typed]]


@EVERY_NAMED
def test_a_sign_is_part_of_a_name_and_an_article_is_not(searcher: Searcher) -> None:
    assert set(shown_named(searcher, "C++")[:2]) == {"c-plus", "c-plus-new"}
    assert shown_named(searcher, "+C#") == ["c-sharp"]
    assert set(shown_named(searcher, "-C++")) == set(NAMED) - {"c-plus", "c-plus-new"}
    assert set(shown_named(searcher, "net -.NET")) == {"net"}
    every = {"elided", "curly", "bare"}
    for typed in ("avion", "l'avion", "l\u2019avion", "+l'avion", "L'AVION"):
        assert set(shown_named(searcher, typed)) == every, typed
    assert set(shown_named(searcher, "l'avion")[:2]) == every - {"bare"}
    assert set(shown_named(searcher, "-l'avion")) == set(NAMED) - every
