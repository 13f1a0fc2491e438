"""Documents, numbers and texts as they are written."""

import io
import json
import math
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from harness.core.scores import Estimate
from harness.report import doc, rounding
from harness.report.rounding import snippet
from tests.report.golden import DOCUMENTS, FOLDER, digests

V1 = doc.Num.of(Estimate(0.123456, 0.1, 0.2, 40), n=True)
V2 = doc.Num.of(Estimate(1 / 3, -math.inf, 0.5, 40), signed=True)
ROWS: list[Sequence[doc.Num | str | int]] = [
    ("v1", V1, doc.Num(1.5e6, "ns"), 1_200),
    ("v2 | [x]", V2, "none", 0),
]
FIGURE = doc.Figure("<svg>", "Means.")
REST = doc.Section("Rest", (doc.Items(("one", "two")), doc.CodeBlock(("harness run",)), FIGURE))
MEANS = doc.table("Means", ("arm", "nDCG@10", "p95", "answers"), ROWS)
DOC = doc.Section("Of two arms", (doc.Text("v2 may be taken.", "headline"), MEANS, REST))


def printed(*, width: int | None = None) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=width is not None, soft_wrap=True)
    console.print(doc.Printed(DOC))
    return re.sub(r"\x1b\[[\d;]*m", "", text.getvalue())


def test_json_holds_values_and_not_words() -> None:
    found = json.loads(doc.to_json(DOC))
    assert found["title"] == "Of two arms"
    first, second = found["blocks"][1]["rows"]
    assert first[1] == {"value": 0.123456, "unit": "", "low": 0.1, "high": 0.2, "n": 40}
    assert first[2:] == [{"value": 1.5e6, "unit": "ns"}, {"value": 1200, "unit": "count"}]
    assert second[1] == {"value": 0.3333333333, "unit": "", "low": None, "high": 0.5}
    rest = found["blocks"][2]
    assert (rest["kind"], rest["title"]) == ("section", "Rest")
    assert rest["blocks"] == [
        {"kind": "items", "items": ["one", "two"], "label": ""},
        {"kind": "code", "lines": ["harness run"]},
        {"kind": "figure", "caption": "Means."},
    ]


def test_markdown_escapes_and_rounds() -> None:
    lines = doc.to_markdown(DOC).splitlines()
    assert lines[0] == "# Of two arms"
    assert "**v2 may be taken.**" in lines
    assert "| v1 | 0.1235 \\[0.1000, 0.2000\\], n 40 | 1.50 ms | 1,200 |" in lines
    assert "| v2 \\| \\[x\\] | +0.3333 \\[unbounded, 0.5000\\] | none | 0 |" in lines
    assert lines[-4:] == ["- one", "- two", "", "    harness run"]


def test_a_terminal_is_not_overrun() -> None:
    lines = printed(width=40).splitlines()
    assert max(map(len, lines)) <= 40
    assert printed().splitlines()[:3] == ["Of two arms", "v2 may be taken.", ""]


def test_no_text_commands_a_terminal() -> None:
    text = io.StringIO()
    Console(file=text, force_terminal=True).print(
        doc.Printed(doc.Section("[bold]\x1b[31mred", (doc.Text("\x1b]0;x\x07"),)))
    )
    assert "\x1b[31m" not in text.getvalue()
    assert "\x1b]" not in text.getvalue()
    assert "[bold]" in text.getvalue()


@pytest.mark.parametrize(
    ("shown", "text", "note"),
    [
        (doc.Num(None), "not defined", ""),
        (doc.Num(2e6, "ns", bare=True), "2.00", ""),
        (doc.Num(0.25, "share", 0.2, math.inf), "25.0 %", "[20.0 %, unbounded]"),
        (doc.Num(0.00001, "p"), "< 0.0001", ""),
        (doc.Num(-0.5, signed=True, n=7, more="few"), "\N{MINUS SIGN}0.5000", "n 7 few"),
    ],
)
def test_a_number_is_rounded_by_its_unit(shown: doc.Num, text: str, note: str) -> None:
    assert (shown.text, shown.note) == (text, note)


NAN, INF = float("nan"), float("inf")


WRITTEN: dict[Callable[..., str], list[tuple[object, str]]] = {
    rounding.number: [
        (0.0, "0"), (-0.0, "0"), (0.41237, "0.4124"), (-0.02, "\N{MINUS SIGN}0.0200"),
        (0.00001, "1.0e\N{MINUS SIGN}05"), (1.23456, "1.235"), (12345.6, "12,345.6"),
        (1.6e-18, "0"), (NAN, "not defined"), (INF, "not defined"), (None, "not defined"),
    ],
    rounding.p_value: [
        (0.0, "< 0.0001"), (0.00005, "< 0.0001"), (0.0001, "0.0001"), (0.25, "0.2500"),
        (None, ""), (NAN, ""),
    ],
    rounding.milliseconds: [
        (523_456.0, "0.523"), (1.0e6, "1.00"), (12_345_678.0, "12.3"), (1.5e9, "1,500"),
        (NAN, "not defined"),
    ],
    rounding.interval: [
        (Estimate(1.0, 0.5, INF, 3), "[0.5000, unbounded]"),
    ],
    rounding.minute: [
        ("2026-11-23T14:29:18+00:00", "2026-11-23 14:29 UTC"),
        ("2026-11-23T14:29:18+02:00", "2026-11-23 12:29 UTC"),
        ("2026-11-23", "2026-11-23"), ("", ""),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        pytest.param(write, value, text, id=f"{write.__name__}-{text}")
        for write, rows in WRITTEN.items()
        for value, text in rows
    ],
)
def test_a_value_is_written_for_people(write: Callable[..., str], value: object, text: str) -> None:
    assert write(value) == text


def test_values_carry_their_unit() -> None:
    assert rounding.in_unit(2e6, "ns") == "2.00 ms"
    assert rounding.in_unit(18.2517, "ratio") == "18.3 times"
    assert rounding.in_unit(0, "share") == "0 %"
    assert rounding.in_unit(0.0034, "share") == "0.340 %"
    assert rounding.in_unit(1.0, "share") == "100 %"
    assert rounding.in_unit(0.5, "") == "0.5000"
    assert rounding.in_unit(None, "ratio") == "not defined"
    assert rounding.interval(Estimate(2.0, 0.5, 3121.4, 3), "ratio") == "[0.500, 3,121]"
    assert rounding.interval(Estimate(1e6, 5e5, INF, 3), "ns") == "[0.500, unbounded]"


@example(NAN)
@example(INF)
@example(-INF)
@given(st.floats() | st.none())
def test_json_takes_every_number(value: float | None) -> None:
    found = rounding.for_json(value)
    json.dumps(found, allow_nan=False)
    assert (found is None) == (value is None or not math.isfinite(value))
    if found is not None:
        assert found == pytest.approx(value, rel=1e-9)


def test_a_sequence_that_does_not_hold_what_was_seen_has_no_one_value() -> None:
    """Twelve pairs of one kind and then 88 of another: 0.95 [0.847, 0.945] was shown."""
    assert rounding.watched(Estimate(0.95, 0.847, 0.945, 100)) == "no single value: it drifted"
    assert rounding.watched(Estimate(0.3, 0.4, 0.6, 9)) == "no single value: it drifted"
    assert rounding.watched(Estimate(0.4, 0.4, 0.4, 9)) == "[0.4000, 0.4000]"


def test_a_snippet_shows_a_word_of_the_query() -> None:
    text = "filler " * 100 + "the needle is here " + "filler " * 100
    found = snippet(text, "where is my needle", 80)
    assert "needle" in found
    assert found.startswith("…")
    assert found.endswith("…")
    assert len(found) <= 81


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_says_what_it_said(name: str) -> None:
    kept = (FOLDER / f"{name}.json").read_text(encoding="utf-8")
    assert doc.to_json(DOCUMENTS[name]()) + "\n" == kept, "python -m tests.report.golden, and look"


@pytest.mark.usefixtures("undrawn")
def test_what_is_too_large_to_keep_has_the_digest_that_it_had() -> None:
    """Explorer, report.md, decision.json and junit.xml."""
    assert digests() == json.loads((FOLDER / "digests.json").read_text(encoding="utf-8"))
