"""One document in three of its forms; the pages show the fourth."""

import io
import json
import math
import re

import pytest
from rich.console import Console

from harness.core.scores import Estimate
from harness.report.doc import (
    Code,
    Figure,
    Items,
    Num,
    Section,
    Text,
    render_terminal,
    table,
    to_json,
    to_markdown,
)

LONG = "a text that is much wider than eighty columns, " * 4
DOC = Section(
    "Of two arms",
    (
        Text("v2 may be taken.", "headline"),
        table(
            "Means",
            ("arm", "nDCG@10", "p95", "answers"),
            [
                ("v1", Num.of(Estimate(0.123456, 0.1, 0.2, 40), n=True), Num(1.5e6, "ns"), 1_200),
                ("v2 | [x]", Num.of(Estimate(1 / 3, -math.inf, 0.5, 40), signed=True), "none", 0),
            ],
        ),
        Section("Rest", (Items(("one", "two")), Code(("harness run",)), Figure("<svg>", "Means."))),
    ),
)


def printed(*, width: int | None = None) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=width is not None, soft_wrap=True)
    console.print(render_terminal(DOC))
    return re.sub(r"\x1b\[[\d;]*m", "", text.getvalue())


def test_json_holds_values_and_not_words() -> None:
    found = json.loads(to_json(DOC))
    assert found["title"] == "Of two arms"
    first, second = found["blocks"][1]["rows"]
    assert first[1] == {"value": 0.123456, "unit": "", "low": 0.1, "high": 0.2, "n": 40}
    assert first[2:] == [{"value": 1.5e6, "unit": "ns"}, {"value": 1200, "unit": "count"}]
    assert second[1] == {"value": 0.3333333333, "unit": "", "low": None, "high": 0.5}
    assert found["blocks"][2] == {
        "kind": "section",
        "title": "Rest",
        "blocks": [
            {"kind": "items", "items": ["one", "two"], "label": ""},
            {"kind": "code", "lines": ["harness run"]},
            {"kind": "figure", "caption": "Means."},
        ],
    }


def test_markdown_escapes_and_rounds() -> None:
    lines = to_markdown(DOC).splitlines()
    assert lines[0] == "# Of two arms"
    assert "**v2 may be taken.**" in lines
    assert "| v1 | 0.1235 \\[0.1000, 0.2000\\], n 40 | 1.50 ms | 1,200 |" in lines
    assert "| v2 \\| \\[x\\] | +0.3333 \\[unbounded, 0.5000\\] | none | 0 |" in lines
    assert lines[-4:] == ["- one", "- two", "", "    harness run"]


def test_what_is_piped_is_not_cut() -> None:
    text = io.StringIO()
    doc = Section("", (table("", ("arm", "why"), [("v1", LONG)]),))
    Console(file=text, soft_wrap=True).print(render_terminal(doc))
    assert LONG.strip() in text.getvalue()


def test_a_terminal_is_not_overrun() -> None:
    lines = printed(width=40).splitlines()
    assert max(map(len, lines)) <= 40
    assert printed().splitlines()[:3] == ["Of two arms", "v2 may be taken.", ""]


def test_no_text_commands_a_terminal() -> None:
    text = io.StringIO()
    Console(file=text, force_terminal=True).print(
        render_terminal(Section("[bold]\x1b[31mred", (Text("\x1b]0;x\x07"),)))
    )
    assert "\x1b[31m" not in text.getvalue()
    assert "\x1b]" not in text.getvalue()
    assert "[bold]" in text.getvalue()


@pytest.mark.parametrize(
    ("shown", "text", "note"),
    [
        (Num(None), "not defined", ""),
        (Num(2e6, "ns", bare=True), "2.00", ""),
        (Num(0.25, "share", 0.2, math.inf), "25.0 %", "[20.0 %, unbounded]"),
        (Num(0.00001, "p"), "< 0.0001", ""),
        (Num(-0.5, signed=True, n=7, more="few"), "\N{MINUS SIGN}0.5000", "n 7 few"),
    ],
)
def test_a_number_is_rounded_by_its_unit(shown: Num, text: str, note: str) -> None:
    assert (shown.text, shown.note) == (text, note)
