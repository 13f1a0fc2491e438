"""Other languages, read by tree-sitter: the same units, joined by the same identities."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from harness_engines.stacks.code.ranking import UnitGraph, UnitRelation
from harness_engines.stacks.code.reading.documents import of_file, understand
from harness_engines.stacks.code.units import Unit

FILES: Mapping[str, str] = {
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
    "shop/tools/index.js": """\
const { sell } = require("../prices");
export function helper(n) { return sell(n); }
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
    "shop/src/tools.rs": "pub struct Tool;\npub fn helper(n: i32) -> i32 { n }\n",
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
    "tools/Tools.java": """\
package com.tools;
public class Tools { public static int helper(int n) { return n; } }
""",
}


def read(path: str) -> dict[str, Unit]:
    made = of_file(path, "", FILES[path].encode())
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
    found = {name: (unit.facts.type, unit.lines) for name, unit in read(path).items()}
    assert found == SAID[path]


def test_a_method_says_what_it_takes_gives_and_calls() -> None:
    sell = read("shop/prices.ts")["Prices.sell"]
    assert sell.facts.full == "shop.prices.Prices.sell"
    assert sell.facts.signature == "sell(what: string, n = 1): number"
    assert sell.facts.params == ("what", "n")
    assert (sell.facts.inferred_types, sell.facts.return_type) == (("string",), "number")
    assert sell.facts.calls == (
        "shop.prices.Prices.count", "shop.prices.twice", "shop.tools.helper",
    )  # fmt: skip
    assert sell.facts.imports == ("fs.readFile", "shop.tools.helper")
    assert (sell.texts.doc, sell.texts.comment) == ("Sells a thing.", "counts first")
    assert "counts first" not in sell.texts.body
    total = read("shop/prices.go")["Price.Total"]
    assert total.facts.signature == "func (p *Price) Total(n int) (int, error)"
    assert total.facts.return_type == "(int, error)"
    assert "strings.ToUpper" in total.facts.calls
    java = read("shop/Prices.java")["Prices.sell"]
    assert java.facts.calls == (
        "com.shop.Prices", "com.shop.Prices.count", "com.tools.Tools.helper", "size",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("caller", "callee"),
    [
        ("shop.prices.Prices.sell", "shop.tools.helper"),
        ("shop.prices.Prices.sell", "shop.prices.Prices.count"),
        ("shop.prices.Prices.sell", "shop.prices.twice"),
        ("shop.Price.Total", "shop.Price.part"),
        ("shop.Price.Total", "shop.helper"),
        ("shop.prices.Price.total", "shop.tools.helper"),
        ("shop.prices.Price.total", "shop.prices.Price.part"),
        ("com.shop.Prices.sell", "com.tools.Tools.helper"),
        ("com.shop.Prices.sell", "com.shop.Prices.count"),
    ],
)
def test_calls_are_joined_by_identity(caller: str, callee: str) -> None:
    found = [unit for path in FILES for unit in read(path).values()]
    graph = UnitGraph(found)
    callers = [row for row, unit in enumerate(found) if unit.facts.full == caller]
    callees = {row for row, unit in enumerate(found) if unit.facts.full == callee}
    beside = {
        one.row
        for row in callers
        for one in graph.neighbours(row)
        if one.reason is UnitRelation.CALL
    }
    assert beside & callees
