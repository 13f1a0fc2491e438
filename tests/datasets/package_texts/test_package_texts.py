"""Long texts of packages: what is a document, what is asked, and what no document gives away."""

from __future__ import annotations

from pathlib import Path

import package_texts
import pytest
from package_texts import PackageTexts, Texts, parts, reading
from python_docs.questions import words

from harness.core.errors import DatasetError
from harness.corpus import card, trec
from tests.datasets.package_texts import site

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = "zoo", "aviary"
SETTINGS = Texts(characters=300, queries=10)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(site.make(tmp_path)))
    return tmp_path


@pytest.fixture
def made(installed: Path) -> PackageTexts:
    assert installed.is_dir()
    return package_texts.read(PACKAGES, SETTINGS)


def text_of(made: PackageTexts, doc_id: str) -> str:
    return next(document.text for document in made.documents if document.doc_id == doc_id)


def test_documents_are_what_people_read_and_is_the_same_on_every_platform(
    made: PackageTexts,
) -> None:
    assert {document.doc_id: document.metadata["kind"] for document in made.documents} == {
        "aviary/description": "description",
        "aviary/__init__.py": "reference",
        "zoo/description": "description",
        "zoo/licenses/LICENSE": "licence",
        "zoo/guide.md": "text",
        "zoo/more.py": "reference",
    }


def test_what_stands_in_an_earlier_document_is_not_read_again(installed: Path) -> None:
    alone = package_texts.read(["zoo"], SETTINGS)
    assert "zoo/__init__.py" in {document.doc_id for document in alone.documents}
    copied = (installed / "zoo" / "guide.md").read_text() + "\n\nAnd one more line."
    (installed / "zoo" / "more.py").write_text(f'"""{copied}"""')
    again = package_texts.read(["zoo"], SETTINGS)
    assert "zoo/more.py" not in {document.doc_id for document in again.documents}


def test_what_two_objects_say_alike_is_read_once(made: PackageTexts) -> None:
    everything = "\n".join(document.text for document in made.documents)
    assert everything.count(site.long("water", 2)) == 1
    assert "Pool" not in everything


def test_a_document_is_as_long_without_its_line_as_the_card_asks(
    made: PackageTexts, installed: Path
) -> None:
    assert len((installed / "zoo" / "short.py").read_text()) > SETTINGS.characters
    assert all(len(document.text) >= SETTINGS.characters for document in made.documents)
    assert "zoo/short.py" not in {document.doc_id for document in made.documents}


def test_a_page_shows_each_object_without_the_line_that_is_asked(made: PackageTexts) -> None:
    page = text_of(made, "aviary/__init__.py")
    assert page.startswith("A guide to the zoo.")
    assert f"feed(animal, hay)\n\n{site.long('seeds', 2)}\n\nPond()" in page
    assert "Pond.drain()\n\nLet all of the water out." in page
    assert "See Also" not in page
    assert "silent" not in page


def test_what_is_asked_stands_in_no_document(made: PackageTexts) -> None:
    asked = {query.query_id: query.text for query in made.queries}
    assert asked == {
        "object:zoo/more.py": "Lead an animal around the pond",
        "package:zoo/description": "A small park for quiet afternoons",
    }
    for text in asked.values():
        for document in made.documents:
            assert " ".join(words(text)) not in " ".join(words(document.text))


def test_a_question_means_the_document_that_it_was_taken_from(made: PackageTexts) -> None:
    for query in made.queries:
        kind, _, doc_id = query.query_id.partition(":")
        assert query.slices == (kind,)
        assert made.qrels.grades[query.query_id] == {doc_id: 1}


def test_a_limit_is_of_each_slice(installed: Path) -> None:
    assert installed.is_dir()
    few = package_texts.read(PACKAGES, SETTINGS.model_copy(update={"queries": 1}))
    assert [query.slices for query in few.queries] == [("object",), ("package",)]


def test_neither_the_order_of_the_card_nor_that_of_an_installer_counts(
    installed: Path, made: PackageTexts
) -> None:
    for record in installed.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines()
        record.write_text("\n".join(["../../bin/zoo,,", "zoo/gone.pyc,,", *lines[::-1]]))
    assert package_texts.read(PACKAGES[::-1], SETTINGS) == made


def test_packages_are_named_with_what_to_do(installed: Path) -> None:
    with pytest.raises(DatasetError, match=r"package gone is not installed.*requirements\.lock"):
        package_texts.read([*PACKAGES, "gone"], SETTINGS)
    (installed / "zoo" / "more.py").write_text("def broken(:\n")
    with pytest.raises(DatasetError, match=r"more\.py: cannot be read as Python"):
        package_texts.read(PACKAGES, SETTINGS)
    with pytest.raises(DatasetError, match="no line of these packages can be a query"):
        package_texts.read(["aviary"], SETTINGS.model_copy(update={"characters": 10**6}))


def test_the_card_and_the_judgements_are_of_what_is_installed() -> None:
    """What the texts are is checked by ``harness stage prepare``, which takes 20 seconds."""
    about = card.read(ROOT / "datasets" / "package-texts")
    assert card.installed(about.packages) == about.packages
    judged = trec.qrels(ROOT / "qrels" / "package-texts" / "test.qrels")
    assert card.of_qrels(judged) == about.sha256.qrels
    files = {
        f"{path}" for name in about.packages for path in reading.distribution(name).files or ()
    }
    asked = {row.doc_id for row in judged.rows()}
    assert len(asked) == about.queries
    assert {doc_id for doc_id in asked - files if not doc_id.endswith("/description")} == set()


@pytest.mark.parametrize(
    ("bare", "line", "fits"),
    [
        ("feed", "Bring food to one hungry animal.", True),
        ("feed", "Bring some food", False),
        ("feed", "Feed every animal once a day", False),
        ("read_csv", "How to read csv files of old", False),
        ("ReadCsv", "A readcsv for files of old", False),
        ("diskcache", "Disk Cache, a cache on the disk", False),
        ("feed", "Bring food to %(animal)s every day", False),
        ("feed", "Bring all of these to it:", False),
        ("feed", "word " * 31, False),
    ],
)
def test_a_question_says_enough_and_does_not_give_its_answer_away(
    bare: str, line: str, *, fits: bool
) -> None:
    part = parts.Part(bare, "", line, "text", "object")
    chosen = package_texts.fit([reading.Text("a", "zoo", "reference", (part,))])
    assert bool(chosen) == fits


def test_a_line_of_two_objects_is_not_asked() -> None:
    one = parts.Part("a", "", "Let all of the water out.", "text", "object")
    other = one._replace(bare="b", line="let all of the `water` out")
    assert not package_texts.fit([reading.Text("a", "zoo", "reference", (one, other))])


def test_the_line_of_a_document_is_drawn_and_not_the_first() -> None:
    ends = ("the sea", "a hill")
    found = [
        reading.Text(f"{n}", "zoo", "reference", tuple(
            parts.Part("x", "", f"A walk number {n} to {end}", "text", "object") for end in ends
        ))
        for n in range(12)
    ]  # fmt: skip
    drawn = [part.line for _, _, part in package_texts.asked(found, package_texts.fit(found), 99)]
    assert len(drawn) == 12
    assert {line[-6:].strip() for line in drawn} == {"he sea", "a hill"}


def test_words_in_a_row_are_found_wherever_they_stand() -> None:
    lines = frozenset({"let all of the water out", "let all of the air out", "water in the pond"})
    held = package_texts.elsewhere(
        lines, ["First, let ALL of the\n*water* out; water in the", "pond"]
    )
    assert held == {"let all of the water out"}


def test_of_a_description_the_summary_is_left_out_wherever_it_stands_alone() -> None:
    found = parts.of_description("zoo", "A zoo.", "# A Zoo\n\nA zoo!\r\nIt is a zoo.")
    assert found.text == "It is a zoo."
    assert parts.of_description("zoo", "", "One.\n\nTwo.").text == "One.\n\nTwo."
