"""Cards: what a dataset must contain."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import pytest

from harness.core.digest import DocumentsDigest, of_queries
from harness.core.errors import BadFile, DatasetError
from harness.core.records import Document, Judgement, Qrels, Query
from harness.corpus import card
from harness.corpus.card import Card, Digests

QUERIES = (Query("q", "text", ("b", "a")), Query("r", "text", ("a",)))
QRELS = Qrels.of([Judgement("q", "d", 1)])


def corpus(text: str = "text") -> DocumentsDigest:
    digest = DocumentsDigest()
    list(digest.watch([Document("d", "", text)]))
    return digest


def example() -> Card:
    return Card(
        name="toy",
        title='A "toy" \\ with\nodd \x7f \u2028 letters',
        source="by hand",
        licence="CC0-1.0",
        made_by="harness import",
        kind="files",
        split="test",
        documents=1,
        queries=2,
        judgements=1,
        warnings=["one", "two"],
        sha256=Digests(
            corpus=corpus().sha256, queries=of_queries(QUERIES), qrels=card.of_qrels(QRELS)
        ),
        slices={"a": 2, "b": 1},
    )


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"warnings": []},
        {"slices": {}},
        {"slices": {"natural language": 1, "a.b": 1}},
        {"kind": "made", "make": {"names": ["a", "b.c"], "most": 9}},
        {"kind": "made", "make": {}, "packages": {"zoo": "1"}},
    ],
)
def test_a_card_comes_back_as_it_was(tmp_path: Path, changed: dict[str, object]) -> None:
    about = example().model_copy(update=changed)
    card.write(tmp_path, about)
    assert card.read(tmp_path) == about


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('licence = "CC0-1.0"\n', "", "licence: Field required. Add 'licence'"),
        ("split =", 'colour = "red"\nsplit =', "colour: Extra inputs.*Take 'colour' out"),
        ("documents = 1", 'documents = "1"', "documents: Input should be a valid integer"),
        ("documents = 1", "documents = 0", "documents: Input should be greater than or equal to 1"),
        ('kind = "files"', 'kind = "zip"', "kind: Input should be 'made' or 'files'"),
        ('kind = "files"', 'kind = "made"', r"the card: .*a table \[make\] belongs to"),
        ('qrels = "', 'qrels = "x', "sha256.qrels: String should match"),
        ("a = 2", "a = 2.5", "slices.a: Input should be a valid integer"),
        ("documents = 1", "documents = ", "it is not TOML"),
    ],
)
def test_a_bad_key_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    card.write(tmp_path, example())
    path = tmp_path / "card.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(BadFile, match=rf"card\.toml(:8)?: {says}"):
        card.read(tmp_path)


def test_a_missing_card_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"card\.toml: missing card\. Import the data"):
        card.read(tmp_path)


def test_what_fits_its_card_passes() -> None:
    found = card.counted(example(), corpus(), QUERIES, QRELS)
    assert found == example()
    card.check(example(), found, hint="Mend it.")


def test_each_difference_is_named() -> None:
    more = Qrels.of([*QRELS.rows(), Judgement("q", "e", 0)])
    found = card.counted(example(), corpus("other"), QUERIES[:1], more)
    with pytest.raises(DatasetError) as caught:
        card.check(example(), found, hint="Mend it.")
    assert str(caught.value) == (
        "toy: not what its card says: queries 2 in the card, 1 in the data;"
        " judgements 1 in the card, 2 in the data;"
        " slices {'a': 2, 'b': 1} in the card, {'a': 1, 'b': 1} in the data;"
        " content of corpus; content of queries; content of qrels. Mend it."
    )


def test_the_digest_of_judgements_does_not_hang_on_their_order() -> None:
    rows = [Judgement("q", "d", 1), Judgement("q", "c", 0), Judgement("p", "d", 1)]
    assert card.of_qrels(Qrels.of(rows)) == card.of_qrels(Qrels.of(reversed(rows)))
    regraded = [*rows[:2], Judgement("p", "d", 2)]
    assert card.of_qrels(Qrels.of(rows)) != card.of_qrels(Qrels.of(regraded))


def test_installed_versions_are_read_and_what_is_absent_is_left_out() -> None:
    assert card.installed(["pytest", "no-such-package"]) == {"pytest": version("pytest")}
