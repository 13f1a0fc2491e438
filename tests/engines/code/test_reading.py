"""Source, prose and records as units: what is read, and by which names they are joined."""

import codecs
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.core.records import Document
from harness_engines.lexical.terms import terms
from harness_engines.stacks.code import units as of_units
from harness_engines.stacks.code.ranking import UnitGraph, UnitRelation
from harness_engines.stacks.code.reading import documents as reading
from harness_engines.stacks.code.reading import python
from harness_engines.stacks.code.reading.documents import of_file, read_record, understand
from harness_engines.stacks.code.reading.python import decoded
from harness_engines.stacks.code.reading.python import documents as of_module
from harness_engines.stacks.code.units import Facts, Mode, Risk, Unit, indexed, words
from tests.make.code import SHOP, documents, write_shop

CODE = '''
@cached
async def fetch_all(self, url: str, *more, retries: int = 3, **options) -> list[bytes]:
    """Fetch a page.

    And more of it.
    """
    # try again
    import numpy as np
    from os import path as p
    found = []
    rate: float = 0.5
    text = "# no comment"
    np.linalg.norm(found)
    p.join(url, text)
    self.session.get(url).json()
    return found
'''


def read(
    text: str, name: str = "", kind: str = "", **imports: str
) -> tuple[of_units.UnitTexts, Facts]:
    tree = python.parsed(text)
    assert tree is not None
    return python.read(text, tree, name=name, kind=kind, imports=imports)


def test_a_function_is_taken_apart() -> None:
    texts, facts = read(CODE)
    assert (texts.name, texts.comment) == ("fetch_all", "try again")
    assert texts.doc.startswith("Fetch a page.")
    body = {part: part in texts.body for part in ("Fetch a page", "try again", "norm")}
    assert body == {"Fetch a page": False, "try again": False, "norm": True}
    assert (facts.type, facts.symbol, facts.full) == ("method", "fetch_all", "fetch_all")
    assert facts.exported
    assert facts.signature == (
        "fetch_all(self, url: str, *more, retries: int=3, **options) -> list[bytes]"
    )
    assert facts.params == ("self", "url", "more", "retries", "options")
    assert facts.return_type == "list[bytes]"
    assert facts.inferred_types == ("str", "int", "list", "float")
    assert facts.calls == ("json", "numpy.linalg.norm", "os.path.join", "self.session.get")
    assert {"numpy.linalg", "found", "url", "list", "bytes"} <= set(facts.uses)
    assert "rate" not in facts.uses
    assert facts.imports == ("numpy", "os.path")
    assert read("import os.path\nos.path.join(x)")[1].calls == ("os.path.join",)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 1", "int"),
        ("return [x]", "list"),
        ("if x: return ''\n    return f'{x}'", "str"),
        ("if x: return 1\n    return 'a'", ""),
        ("return x", ""),
        ("pass", ""),
        ("return Path(x)", "Path"),
    ],
)
def test_a_return_type_is_inferred_only_where_all_agree(body: str, said: str) -> None:
    assert read(f"def f(x):\n    {body}")[1].return_type == said


def risks(code: str) -> tuple[Risk, ...]:
    return read("def f(a):\n" + "".join(f"    {line}\n" for line in code.splitlines()))[1].risks


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        ("return a", 0),
        ("eval('1 + 1')", 0),
        ("eval(a)", python.MEDIUM),
        ("a.execute(a)", python.MEDIUM),
        ("return input()", python.LOW),
        ("import os\nos.system(os.environ['X'])", python.HIGH),
        ("from os import environ as e, system as s\ns(e['X'])", python.HIGH),
        ("for x in input():\n    exec(x)", python.HIGH),
        ("with input() as x:\n    exec(x)", python.HIGH),
        ("exec(y := input())", python.HIGH),
        ("x = input()\nx = 'safe'\neval(x)", python.HIGH),
        ("while a:\n    exec(z)\n    z = y\n    y = x\n    x = input()", python.HIGH),
        ("a.x = input()\neval(a.x)", python.MEDIUM),
    ],
)
def test_severity_and_its_plain_limits(code: str, severity: int) -> None:
    assert max((one.severity for one in risks(code)), default=0) == severity


def test_a_source_that_reaches_a_sink_is_high() -> None:
    _, facts = read(SHOP["shop/prices.py"])
    assert "os.environ->os.system" in {one.flow for one in facts.risks}
    found = risks("b = input()\nc = b + 'x'\neval(c)")
    (high,) = (one for one in found if one.severity == python.HIGH)
    assert high == Risk("code-execution", "injection", python.HIGH, "input", "eval")
    assert high.flow == "input->eval"
    assert {one.severity for one in found} == {python.LOW, python.MEDIUM, python.HIGH}


NUMPYDOC = """merge(left, right, how)

Join two tables, as `DataFrame.join` does.

Parameters
----------
left : DataFrame
right, other : DataFrame or Series, optional
    Two.

Returns
-------
joined : DataFrame

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
    assert of_units.parts("HTTPServer_v2") == ["http", "server", "v2"]
    found, whole = words("pandas.DataFrame.read_csv()", "none")
    assert found == ["pandas", "data", "frame", "read", "csv"]
    assert whole == ["dataframe", "readcsv"]
    assert indexed("read_csv reads", "english") == "read csv read readcsv"
    assert words("the waters of", "english")[0] == ["water"]
    assert indexed("Ünïcode_naïve", "none") == "unicode naive unicodenaive"
    assert indexed("東京大学", "none").split() == list(terms("東京大学"))
    assert indexed("हिन्दी", "none").split() == list(terms("हिन्दी"))
    assert indexed("x" * 500, "none") == ""
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
    settings = unit("", '[shop]\nopen = true\nname = "Tea"\n', path="a.toml")
    assert settings.texts.comment.split() == ["shop", "open", "name"]
    assert settings.texts.body.split() == ["True", "Tea"]
    assert settings.facts.params == ("shop", "open", "name")
    table = unit("", "name,price\nassam,4\n", path="a.csv")
    assert table.texts.body.split() == ["assam", "4"]
    assert read_record("", "x", "yaml", "") is None
    assert read_record("", "[" * 100_000, "json", "") is None
    assert unit("", "x", path="src/App.Test.PY").ext == "py"
    assert unit("", "x", path="src/.hidden").ext == ""
    assert unit("", "x", path="a.b/Makefile").file == "Makefile"
    assert understand(Document("only/id.md", "", "x")).path == "only/id.md"
    assert reading.embedded(Document("d", "", "text")) == "text"


def test_a_page_is_cut_at_headings_of_three_levels() -> None:
    text = "Before.\n\n# A\n\n## B\n\n### C\n\n#### D\n\nInside.\n\n### E\n\nLast.\n"
    found = {one.title: one.text for one in of_file("a.md", "a", text.encode())}
    assert list(found) == ["", "A", "B", "C", "E"]
    assert found["C"].endswith("Inside.")
    assert [one.title for one in of_file("b.md", "b", "\ufeff# A\n\nx".encode())] == ["A"]


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl", "a.yaml", "b/a.YML"])
def test_other_records_are_read_as_lines(name: str) -> None:
    data = b"\r\n".join(b"port: %d" % at for at in range(1, 46))
    found = [understand(one) for one in of_file(name, "a", data)]
    assert [one.lines for one in found] == ["1-20", "21-40", "41-45"]
    assert {one.mode for one in found} == {Mode.RECORDS}
    assert found[2].texts.doc.splitlines()[0] == "port: 41"
    assert name.rpartition(".")[2].lower() in reading.READ


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


GUARDED = '''\
"""Says what it is."""
from __future__ import annotations

import sys

LIMIT = 10
names: list[str] = []

if sys.platform == "win32":
    def wait(): ...
else:
    @cached
    def wait(): ...

try:
    import fast
except ImportError:
    class Fast:
        class Part:
            def turn(self): ...

print(LIMIT)
'''


def units(path: str, module: str, text: str) -> dict[str, Unit]:
    return {
        one.doc_id.rpartition("::")[2]: understand(one) for one in of_module(path, module, text)
    }


def test_everything_that_a_module_defines_is_a_unit_with_its_lines() -> None:
    found = units("m.py", "m", GUARDED)
    assert {name: (unit.facts.type, unit.lines) for name, unit in found.items()} == {
        "": ("module", "1-1"),
        "LIMIT": ("constant", "6-6"),
        "names": ("constant", "7-7"),
        "wait": ("function", "10-10"),
        "wait#2": ("function", "12-13"),
        "Fast": ("class", "18-20"),
        "Fast.Part": ("class", "19-20"),
        "Fast.Part.turn": ("method", "20-20"),
        "<module>": ("module", "6-22"),
    }
    assert found["LIMIT"].facts.full == "m.LIMIT"


def test_a_module_that_is_being_edited_keeps_what_parses() -> None:
    text = (
        "import os\n\ndef good(one):\n    return os.path.join(one)\n\n"
        "def bad(:\n    pass\n\nclass Fine:\n    def go(self): ...\n"
    )
    found = units("m.py", "m", text)
    lines = {name: unit.lines for name, unit in found.items()}
    assert lines == {"good": "3-4", "bad": "6-7", "Fine": "9-10", "Fine.go": "10-10"}
    assert found["good"].facts.params == ("one",)
    assert found["bad"].facts.full == "m.bad"


LATIN, CYRILLIC = "# coding: latin-1\nx = 'é'\n", "# -*- coding: cp1251 -*-\nx = 'да'"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (codecs.BOM_UTF8 + b"a = 'x'\r\n", "a = 'x'\n"),
        (LATIN.encode("latin-1"), LATIN),
        (CYRILLIC.encode("cp1251"), CYRILLIC),
        (b"# coding: nothing\nx = 1\n", "# coding: nothing\nx = 1\n"),
        (b"x = '\xff'\n", "x = '\ufffd'\n"),
        (b"x = 1\0\n", "x = 1\ufffd\n"),
    ],
)
def test_a_file_is_decoded_as_python_does(data: bytes, said: str) -> None:
    assert decoded(data) == said


def test_lines_are_those_of_python() -> None:
    text = 'a = "\u2028 \x0c \x85"\n\x0c\ndef here():\n    return "\u2029"\n'
    found = units("m.py", "m", text)
    assert found["here"].lines == "3-4"
    assert found["here"].texts.body.startswith("return")
    stub = of_file("m.pyi", "m", b"def f(x: int) -> str: ...\n")
    assert [one.doc_id for one in stub] == ["m.pyi::f"]
    big = b"def f():\n    return 1\n\nDATA = '" + b"x" * (3 << 19) + b"'\n"
    assert "m.py::f" in [one.doc_id for one in of_file("m.py", "m", big)]


FILES: Mapping[str, str] = {
    "p/__init__.py": "from .tools import made\n\ndef top():\n    return made()\n",
    "p/tools.py": """\
def made():
    return other()
def other(): ...
class A:
    def one(self):
        return self.two()
    def two(self): ...
""",
    "q/tools.py": "def made(): ...\ndef other(): ...\nclass A:\n    def two(self): ...\n",
    "shop/prices.ts": """\
import { readFile } from "fs";
import { helper as help } from "./tools/index";

/** A list of prices. */
export class Prices extends Base {
  private all = 1;

  /** Sells a thing. */
  sell(what: string, n = 1): number {
    // counts first
    return this.count(what) + help(n) + twice(n);
  }
  private count(what: string): number { return readFile(what).size(); }
}
export const LIMIT = 10;
export const twice = (n: number): number => n * 2;
start();
""",
    "shop/prices.go": """\
// Package shop sells.
package shop

import (
\t"fmt"
\tstr "strings"
)

// Limit is how many.
const Limit = 10

type (
\tPrice struct{ Amount int }
\tName  string
)

// Total adds up.
func (p *Price) Total(n int) (int, error) {
\tfmt.Println(str.ToUpper("a"))
\treturn p.part(n) + helper(n), nil
}

func (p *Price) part(n int) int { return n }
""",
    "shop/tools.go": "package shop\n\nfunc helper(n int) int { return n }\n",
    "shop/src/prices.rs": """\
use std::collections::HashMap;
use crate::tools::{helper as help, Tool};

/// A price.
pub struct Price { amount: i32 }

impl Price {
    /// Adds up.
    pub fn total(&self, n: i32) -> i32 {
        println!("{}", n);
        help(n) + self.part(n) + HashMap::new().len()
    }
    fn part(&self, n: i32) -> i32 { n }
}
""",
    "shop/Prices.java": """\
package com.shop;

import com.tools.Tools;

/** A list of prices. */
public class Prices extends Base {
  private int n = 1;

  /** Sells a thing. */
  public int sell(String what, int n) {
    return count(what) + Tools.helper(n).size() + new Prices().n;
  }
  private int count(String what) { return 1; }
}
""",
}


def units_of(path: str) -> dict[str, Unit]:
    made = of_file(path, reading.module_of(path), FILES[path].encode())
    return {one.doc_id.rpartition("::")[2]: understand(one) for one in made}


SAID = {
    "shop/prices.ts": {
        "Prices": ("class", "4-14"), "Prices.sell": ("method", "8-12"),
        "Prices.count": ("method", "13-13"), "LIMIT": ("constant", "15-15"),
        "twice": ("function", "16-16"), "<module>": ("module", "17-17"),
    },
    "shop/prices.go": {
        "Limit": ("constant", "9-10"), "Price": ("class", "13-13"), "Name": ("class", "14-14"),
        "Price.Total": ("method", "17-21"), "Price.part": ("method", "23-23"),
    },
    "shop/src/prices.rs": {
        "Price": ("class", "4-5"), "Price.total": ("method", "8-12"),
        "Price.part": ("method", "13-13"),
    },
    "shop/Prices.java": {
        "Prices": ("class", "5-14"), "Prices.sell": ("method", "9-12"),
        "Prices.count": ("method", "13-13"),
    },
}  # fmt: skip


@pytest.mark.parametrize("path", SAID)
def test_a_file_has_the_units_that_python_would_have(path: str) -> None:
    found = {name: (unit.facts.type, unit.lines) for name, unit in units_of(path).items()}
    assert found == SAID[path]


def test_a_method_says_what_it_takes_gives_and_calls() -> None:
    sell = units_of("shop/prices.ts")["Prices.sell"]
    assert sell.facts.full == "shop.prices.Prices.sell"
    assert sell.facts.signature == "sell(what: string, n = 1): number"
    assert sell.facts.params == ("what", "n")
    assert (sell.facts.inferred_types, sell.facts.return_type) == (("string",), "number")
    assert sell.facts.calls == ("help", "shop.prices.Prices.count", "shop.prices.twice")
    assert (sell.texts.doc, sell.texts.comment) == ("Sells a thing.", "counts first")
    assert "counts first" not in sell.texts.body
    total = units_of("shop/prices.go")["Price.Total"]
    assert total.facts.signature == "func (p *Price) Total(n int) (int, error)"
    assert total.facts.return_type == "(int, error)"
    assert "str.ToUpper" in total.facts.calls
    java = units_of("shop/Prices.java")["Prices.sell"].facts.calls
    assert java == ("Tools.helper", "com.shop.Prices", "com.shop.Prices.count", "size")


@pytest.mark.parametrize(
    ("caller", "callee"),
    [
        ("p.top", "p.tools.made"),
        ("p.tools.made", "p.tools.other"),
        ("p.tools.A.one", "p.tools.A.two"),
        ("shop.prices.Prices.sell", "shop.prices.Prices.count"),
        ("shop.prices.Prices.sell", "shop.prices.twice"),
        ("shop.Price.Total", "shop.Price.part"),
        ("shop.Price.Total", "shop.helper"),
        ("shop.src.prices.Price.total", "shop.src.prices.Price.part"),
        ("com.shop.Prices.sell", "com.shop.Prices.count"),
    ],
)
def test_calls_are_joined_by_full_names(caller: str, callee: str) -> None:
    found = [unit for path in FILES for unit in units_of(path).values()]
    rows = {unit.facts.full: row for row, unit in enumerate(found) if unit.facts.symbol}
    beside = UnitGraph(found).neighbours[rows[caller]]
    called = {one.row for one in beside if one.reason is UnitRelation.CALL}
    assert rows[callee] in called
    namesake = f"q{callee.removeprefix('p')}"
    assert rows.get(namesake) not in called
