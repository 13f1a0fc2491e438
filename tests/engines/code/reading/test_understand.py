"""Documents taken for what they are, packages read into documents, and words into terms."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from engines.lexical.terms import terms
from engines.stacks.code.reading import python
from engines.stacks.code.reading.documents import embedded, read_record, understand
from engines.stacks.code.units import Mode, Unit, indexed, parts, words
from harness.core.records import Document
from tests.make.code import documents, write_shop

COSQA = Path(__file__).resolve().parents[5] / "shared" / "datasets" / "cosqa"
NUMPYDOC = """merge(left, right, how)

Join two tables, as `DataFrame.join` does.

Parameters
----------
left : DataFrame
    One.
right, other : DataFrame or Series, optional
    Two.

Returns
-------
joined : DataFrame
    Both.

See Also
--------
concat : Put them below each other.
DataFrame.join, merge_asof

Examples
--------
>>> df = pd.DataFrame([1])
>>> merge(df,
...       np.array(df))
"""


def unit(title: str, text: str, **about: str | bool) -> Unit:
    return understand(Document("d", title, text, about))


def test_a_name_gives_its_parts_and_its_whole() -> None:
    assert parts("HTTPServer_v2") == ["http", "server", "v2"]
    assert words("pandas.DataFrame.read_csv()", "none") == (
        ["pandas", "data", "frame", "read", "csv"],
        ["dataframe", "readcsv"],
    )
    assert indexed("read_csv reads", "english") == "read csv read readcsv"
    assert words("read_csv", "none")[0] == ["read", "csv"]
    assert words("the waters of", "english")[0] == ["water"]


@pytest.mark.parametrize("text", ["東京", "été", "Ünïcode_naïve", "\U0001e900\U0001e901", "ẞ"])
def test_what_is_indexed_is_plain_ascii(text: str) -> None:
    made = indexed(text, "none")
    assert made.isascii()
    assert made


def test_comments_have_the_terms_of_any_index() -> None:
    assert indexed("Ünïcode_naïve", "none") == "unicode naive unicodenaive"
    assert indexed("東京大学", "none").split() == list(terms("東京大学"))
    assert indexed("हिन्दी", "none").split() == list(terms("हिन्दी"))


def test_data_pasted_into_code_is_no_word() -> None:
    assert indexed("x" * 500, "none") == ""


def test_words_that_are_not_ascii_stay_apart() -> None:
    assert indexed("東京", "none") != indexed("大阪", "none")
    assert indexed("été", "none") == indexed("ÉTÉ", "none")


@pytest.mark.parametrize(
    ("title", "text", "about", "mode", "kind"),
    [
        ("", "def f(x):\n    return x", {}, Mode.CODE, "function"),
        ("", "    def f(self):\n        return 1", {}, Mode.CODE, "method"),
        ("", "def f(x):\n    print x", {}, Mode.CODE, "function"),
        ("a.f", "f(x, y)\n\nSay more.", {"kind": "method"}, Mode.CODE, "method"),
        ("Tea", "f(x, y)\n\nSay more.", {}, Mode.PROSE, "text"),
        ("Tea", "Water and leaves.", {}, Mode.PROSE, "text"),
        ("", "water", {}, Mode.PROSE, "text"),
        ("", '{"a": {"b": [1, "two"]}}', {}, Mode.RECORDS, "record"),
        ("", "{not json", {}, Mode.PROSE, "text"),
        ("", "a = 1", {"path": "x/y.toml"}, Mode.RECORDS, "record"),
        ("", "a = 1", {"path": "x/y.py"}, Mode.CODE, "module"),
        ("", "def f(): pass", {"mode": "prose"}, Mode.PROSE, "text"),
        ("", "", {}, Mode.PROSE, "text"),
        ("", "water", {"mode": "code"}, Mode.CODE, "module"),
        ("", "int main() { return 0; }", {"language": "C"}, Mode.CODE, "module"),
        ("", "tea", {"language": "markdown"}, Mode.PROSE, "text"),
        ("", "tea", {"mode": "no such"}, Mode.PROSE, "text"),
    ],
)
def test_a_document_is_taken_for_what_it_is(
    title: str, text: str, about: dict[str, str], mode: Mode, kind: str
) -> None:
    found = unit(title, text, **about)
    assert (found.mode, found.facts.type) == (mode, kind)


def test_the_documentation_of_a_symbol_is_read_by_its_sections() -> None:
    facts = unit("pandas.merge", NUMPYDOC).facts
    assert (facts.symbol, facts.full, facts.type) == ("merge", "pandas.merge", "function")
    assert facts.params == ("left", "right", "how", "other")
    assert facts.inferred_types == ("DataFrame",)
    assert facts.return_type == "DataFrame"
    assert facts.links == ("concat", "DataFrame.join", "merge_asof")
    assert facts.calls == ("merge", "numpy.array", "pandas.DataFrame")
    assert python.signature_of("pandas.merge", "other(left)") == ""


def test_a_record_gives_its_keys_and_its_values() -> None:
    read = read_record("settings", '[shop]\nopen = true\nname = "Tea"\n', "toml", "")
    assert read is not None
    texts, facts = read
    assert texts.comment.split() == ["shop", "open", "name"]
    assert texts.body.split() == ["True", "Tea"]
    assert facts.params == ("shop", "open", "name")
    table = read_record("", "name,price\nassam,4\n", "csv", "")
    assert table is not None
    assert table[0].body.split() == ["assam", "4"]
    assert read_record("", "x", "yaml", "") is None
    assert read_record("", "[" * 100_000, "json", "") is None


def test_paths_have_files_and_endings() -> None:
    assert unit("", "x", path="src/App.Test.PY").ext == "py"
    assert unit("", "x", path="src/.hidden").ext == ""
    assert unit("", "x", path="a.b/Makefile").file == "Makefile"
    assert understand(Document("only/id.md", "", "x")).path == "only/id.md"
    assert embedded(Document("d", "", "text")) == "text"


def test_a_package_becomes_symbols_pages_and_records(tmp_path: Path) -> None:
    found = {one.doc_id: understand(one) for one in documents(write_shop(tmp_path))}
    assert list(found) == [
        "shop/README.md#1", "shop/README.md#2", "shop/__init__.py::", "shop/prices.py::",
        "shop/prices.py::PriceList", "shop/prices.py::PriceList.total_price",
        "shop/prices.py::PriceList.price_of", "shop/prices.py::load_prices",
        "shop/prices.py::_shell", "shop/settings.toml", "shop/teas.csv", "shop/till.py::",
        "shop/till.py::checkout",
    ]  # fmt: skip
    total = found["shop/prices.py::PriceList.total_price"]
    assert total.facts.full == "shop.prices.PriceList.total_price"
    assert "decimal.Decimal" in total.facts.calls
    assert total.texts.comment == "the rebate comes last"
    assert "price_of" not in found["shop/prices.py::PriceList"].texts.body
    assert found["shop/prices.py::PriceList"].texts.doc == "Prices by the name of a tea."
    assert not found["shop/prices.py::_shell"].facts.exported
    assert found["shop/till.py::checkout"].facts.calls[-1] == "shop.prices.load_prices"
    assert found["shop/README.md#1"].facts.links == ("shop.till.checkout",)
    assert {one.mode for one in found.values()} == {Mode.CODE, Mode.PROSE, Mode.RECORDS}


def test_a_file_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("print 'x'")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe")
    (tmp_path / "twice.py").write_text("def f(): pass\ndef f(): pass\n")
    assert [one.doc_id.partition("/")[2] for one in documents(tmp_path)] == [
        "twice.py::f",
        "twice.py::f#2",
    ]


@pytest.mark.skipif(not COSQA.is_dir(), reason="the collection is not part of the project")
def test_snippets_that_people_wrote_are_code_with_a_name() -> None:
    with gzip.open(COSQA / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        some = [json.loads(line) for line, _ in zip(lines, range(800), strict=False)]
    units = [understand(Document(one["_id"], "", one["text"], one["metadata"])) for one in some]
    assert {one.mode for one in units} == {Mode.CODE}
    assert sum(bool(one.facts.symbol) for one in units) > 790
    assert sum(bool(one.texts.doc) for one in units) > 700
