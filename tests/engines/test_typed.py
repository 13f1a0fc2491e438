"""What is typed, read: operators, one form of every text, and the terms of it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_engines.lexical import grammar, terms
from harness_engines.lexical.grammar import MOST_WORDS, exact_clauses
from harness_engines.lexical.terms import Occur, folded, indexed, passage

SIGNS = {Occur.SHOULD: "", Occur.MUST: "+", Occur.NOT: "-"}


def read(text: str) -> list[str]:
    """Write clauses in one line each: a sign, and words joined by a space or in quotes."""
    return [
        SIGNS[c.occur] + (f'"{" ".join(c.words)}"' if c.quoted else " ".join(c.words))
        for c in exact_clauses(text)
    ]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("salt water", ["salt", "water"]),
        ("salt OR water", ["salt", "water"]),
        ("salt AND water", ["+salt", "+water"]),
        ("salt AND water AND sea", ["+salt", "+water", "+sea"]),
        ("salt AND NOT water", ["+salt", "-water"]),
        ("salt NOT water", ["salt", "-water"]),
        ("salt OR NOT water", ["salt", "-water"]),
        ("salt NOT OR water", ["salt", "NOT", "OR", "water"]),
        ("NOT NOT salt water", ["salt", "water"]),
        ("a salt AND water sea", ["a", "+salt", "+water", "sea"]),
        ("salt AND -water", ["+salt", "-water"]),
        ("-salt AND water", ["-salt", "+water"]),
        ("NOT ! salt water", ["-salt", "water"]),
        ("+salt -water sea", ["+salt", "-water", "sea"]),
        ("AND salt", ["AND", "salt"]),
        ("salt AND", ["salt", "AND"]),
        ("salt NOT", ["salt", "NOT"]),
        ('"salt water" sea', ['"salt water"', "sea"]),
        ('+"salt water" -"dead sea"', ['+"salt water"', '-"dead sea"']),
        ('salt"water sea"lake', ["salt", '"water sea"', "lake"]),
        ('"salt water sea', ["salt", "water", "sea"]),
        ('"salt water" sea"', ['"salt water"', "sea"]),
        ('""', []),
        ('"AND" salt', ['"AND"', "salt"]),
        ("+NOT salt", ["+NOT", "salt"]),
        ("and salt not or", ["and", "salt", "not", "or"]),
        ("read_csv", ["read csv"]),
        ("br-2tnl", ["br 2tnl"]),
        ("pandas.read_csv()", ["pandas read csv"]),
        ("-read_csv salt", ["-read csv", "salt"]),
        ("--salt water", ["salt", "water"]),
        ("C++ +", ["C"]),
        ("- + ! * ^", []),
        ("don't", ["don t"]),
        ("東京 naïve Ⅻ", ["東京", "naïve", "Ⅻ"]),
        ("हिन्दी -co\xadop 👍🏽!", ["हिन्दी", "-co\xadop", "👍🏽"]),
        ("-salt", ["-salt"]),
        ("NOT salt -water", ["-salt", "-water"]),
        ("sea NOT (salt OR water)", ["sea", "-salt", "-water"]),
        ("SEA (OR", ["SEA", "OR"]),
        ("京都 OR 東京", ["京都", "東京"]),
        ("exit code -1073741819", ["exit", "code", "1073741819"]),
        ("commit --no-verify", ["commit", "no verify"]),
        ("commit --no-verify -hooks", ["commit", "-no verify", "-hooks"]),
        ("-17 NOT sea", ["-17", "-sea"]),
        ("-salt NOT water", ["-salt", "-water"]),
        ("SALT AND WATER NOT SEA", ["SALT", "AND", "WATER", "NOT", "SEA"]),
        ("-0x80070005, -1.5", ["0x80070005", "1 5"]),
        ("greenhouse -17.5°C", ["greenhouse", "17 5 C"]),
        ("r = -.45, or -1e-9", ["r", "45", "or", "1e 9"]),
        ("refund -$50 -3d", ["refund", "-50", "-3d"]),
        ("", []),
        ("\0", []),
        ("\ud800", []),
    ],
)
def test_what_is_meant(text: str, meant: list[str]) -> None:
    assert read(text) == meant


@pytest.mark.parametrize(
    ("text", "alone", "said"),
    [
        ("-salt NOT water", ["salt", "water"], "-salt -water"),
        ('-"sea salt"', ["sea salt"], '-"sea salt"'),
        ("-salt water", [], "-salt"),
        ("(a OR b) AND c", [], "+(a b) +c"),
        ("a OR b AND c", [], "+(a (+b +c))"),
        ("a OR +x b AND c", [], "+x"),
        ("-x a OR b AND c", [], "-x +(a (+b +c))"),
        ("a OR NOT b", [], "+(a (-b))"),
        ("a NOT (b AND NOT c)", [], "-(+b -c)"),
        ('a AND b +"c d" e -br-2tnl', [], '+a +b +"c d" -br-2tnl'),
        ('salt "sea water" br-2tnl OR x', [], ""),
        ("NOT", [], ""),
        ("- +", [], ""),
        ("", [], ""),
    ],
)
def test_refusals_alone_and_signs(text: str, alone: list[str], said: str) -> None:
    note = "without heat, read_cs* read as words"
    assert grammar.note_refusals('read_cs* -heat conf* "a_b*"') == note
    assert grammar.refuses(text) == bool(alone)
    assert not alone or list(grammar.refused(text)) == alone
    assert grammar.signed(text) == said
    assert grammar.signed(said) == said


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"w{at}" for at in range(MOST_WORDS + 500)),
        '"' + " ".join(["word"] * (MOST_WORDS + 500)) + '"',
        "-".join(["word"] * (MOST_WORDS + 500)),
        "one " + "_".join(["word"] * (MOST_WORDS + 500)) + " last",
    ],
)
def test_words_beyond_the_most_are_left_out(text: str) -> None:
    assert sum(len(clause.words) for clause in exact_clauses(text)) == MOST_WORDS


@pytest.mark.parametrize(
    ("text", "trimmed"),
    [("  a\t\n b ", "a b"), ("a\0b", "a b"), ("a\udfffb", "a b"), ("\u00a0", ""), ("😀", "😀")],
)
def test_white_space_and_what_is_no_character(text: str, trimmed: str) -> None:
    assert terms.normalise(text) == trimmed


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("salt " * 500, "salt"),
        ("salt Salt SALT s\u0101lt sal\u0301t salt " * 50, "salt"),
        ("-sea " * 500, "sea"),
        ("salt OR " * 500 + "salt", "salt"),
        ('"salt" ' * 500, "salt"),
    ],
)
def test_what_is_said_again_and_again_counts_a_few_times(text: str, same: str) -> None:
    found = exact_clauses(text)
    assert len(found) == grammar.MOST_REPEATS
    assert all(clause.words[0][:1].casefold() == same[0] for clause in found)


@given(st.text('ab c"()+-17AND OR NOT', max_size=40))
def test_what_is_written_of_a_query_means_the_same(text: str) -> None:
    tree = grammar.parse(text)
    again = grammar.parse(grammar.written(tree))
    for letter in ("a", "b", "c"):
        has = {one.words: letter in "".join(one.words) for one in grammar.leaves(tree)}
        found, wanted = (
            grammar.mask(one, lambda leaf: has[leaf.words], True)  # noqa: B023, FBT003  at once
            for one in (again, tree)
        )
        assert found == wanted, letter


ALPHABETS = (
    "aZé ßİﬁ½²™K-\n\u0301\xad\u200d\u200b가ᄀ\u1161\u11a8ｶﾞがハ\u3099東ไำ่क्षिन्दी"
    "שָאَأـ👍\U0001f3fd\ufe0f㎏ⅫαΣς"
)


@given(st.text(max_size=20) | st.text(ALPHABETS, max_size=20))
def test_each_character_stands_for_some_of_the_text(text: str) -> None:
    """What a character stands for has it in its form, and comes in the order of the text."""
    normal = terms.Normal.of(text)
    assert normal.text == folded(text)
    before = 0
    for at, sign in enumerate(normal.text):
        start, end = normal.span(at, at + 1)
        assert 0 <= start < end <= len(text)
        assert start >= before
        assert sign in folded(text[start:end])
        before = start


LETTERS = "东京大学αβγжзиłđøहिन्दแมวน้ำ가나다"
LIKE = ("naïve", "ﬁne", "co\xadoperate", "x²", "3½", "Java™", "שָׁלוֹם", "ｶﾞｲﾄﾞ", "2020年",
        "👩\u200d💻", "-+")  # fmt: skip


@pytest.mark.parametrize("name", ["c#", "a++", ".net"])
def test_a_name_with_a_sign_has_a_term_of_its_own(name: str) -> None:
    assert terms.sign_term(name) in indexed(f"of {name}, then").split()


@given(st.lists(st.sampled_from(LIKE) | st.text(LETTERS, min_size=1), max_size=6).map(" ".join))
def test_a_text_finds_itself(text: str) -> None:
    """Every term of the clauses of a text stands in what is indexed of it, in any case."""
    written = {*re.findall(r"[a-z0-9]+", indexed(text).lower())}
    for clause in exact_clauses(text):
        for word in clause.words:
            assert {term.lower() for term in terms.terms(word)} <= written


def test_a_passage_is_of_the_text_itself() -> None:
    text = "Un ﬁlet, puis: le cafe\u0301 du 東京大学."
    codes = ("zz" + pair.encode().hex() for pair in ("東京", "京大"))
    assert passage(text, f"le cafe du  {' '.join(codes)}") == "le cafe\u0301 du 東京大"
    assert passage("read_csv (x)", "csv (x)") == "csv (x)"
    for said in ("(J'ai mangé une crème.)", "# Été à Paris\n\nLe musée d'Orsay, délicieuse.\n"):
        assert passage(said, indexed(said)) == said
    assert passage("Où est J. Doe, né ici?", "J. Doe, ne") == "J. Doe, né"
    assert passage("Où est J. Doe, né ici?", "J. Doe, ne ici?") == "J. Doe, né ici?"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see br-2tnl.", ("br-2tnl",)),
        ("BR-2TNL.1.3, then br-2tnl", ("br-2tnl.1.3", "br-2tnl")),
        ("read_csv(./src/app.py)", ("read_csv", "src/app.py")),
        ("https://example.org/a_b?c=d", ("example.org/a_b",)),
        ("--no-verify and __init__.py", ("no-verify", "init__.py")),
        ("v1.2.3-rc.1", ("v1.2.3-rc.1",)),
        ("Straße-Ärger 部署/失败", ("straße-ärger", "部署/失败")),
        ("br-2tnl br-2tnl", ("br-2tnl", "br-2tnl")),
        ("since 9428bc6, not 9428bc", ("9428bc6",)),
        ("1234567 ABCDEF1 abcdefg 10ms 2nd", ("1234567", "abcdef1")),
        ("é9428bc6 9428bc6é 9428bc\uff16 部署2024年失败了", ()),
        ("commit_9428bc6", ("commit_9428bc6",)),
        ("plain words, a - b, c/ d don't x:y C++", ()),
        ("", ()),
    ],
)
def test_joined_tokens_are_found_whole(text: str, found: tuple[str, ...]) -> None:
    assert terms.identifiers(text) == found
