"""The explorer's page: one script, no address, the same bytes, and data that come out again."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from urllib.parse import parse_qs

import pytest

from harness.core.errors import HarnessError
from harness.report.explorer import pack, themes, to_explorer
from harness.report.html import TEMPLATES, explore_link
from tests.make import report_inputs
from tests.make.explorer_data import data_of, unpacked


@pytest.fixture(scope="module")
def page() -> str:
    return to_explorer([report_inputs.report("mail"), report_inputs.compared_only("<i>bare</i>")])


def test_the_same_bytes_again(page: str) -> None:
    again = to_explorer([report_inputs.report("mail"), report_inputs.compared_only("<i>bare</i>")])
    assert again.encode() == page.encode()


def test_only_our_script_may_run_and_nothing_is_asked_for(page: str) -> None:
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert len(scripts) == 1
    assert policy is not None
    assert policy[1].startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}';" in policy[1]
    assert not re.findall(r"\s(?:src|srcset|action|on\w+)=", page.split("<script", maxsplit=1)[0])
    assert re.findall(r'href="([^"]*)"', page.split("<script", maxsplit=1)[0]) == [
        "#list", "index.html", "index.html",
    ]  # fmt: skip
    assert "innerHTML" not in page
    assert "@import" not in page
    assert "url(" not in page


def test_every_data_set_is_there_and_its_name_is_text(page: str) -> None:
    found = data_of(page)
    assert list(found) == ["values-0", "hits-0", "values-1", "hits-1"]
    assert [found[f"values-{at}"]["dataset"] for at in (0, 1)] == ["mail", "<i>bare</i>"]
    assert "<i>bare" not in page
    assert "&lt;i&gt;bare" in page


def test_nothing_hostile_leaves_the_packed_data(page: str) -> None:
    assert not set("\x00\x07\x1b\u202e\u2028") & set(page)
    assert "<script>alert" not in page
    texts = data_of(page)["values-0"]["texts"]
    assert texts[0] == "<script>alert('query')</script>"
    assert "⟨U+202E⟩" in texts[2]
    assert "�" in texts[3]


def test_what_is_packed_comes_out_and_carries_no_time() -> None:
    value = {"text": "ä\ud800", "list": [1, None]}
    packed = pack(value)
    assert unpacked(packed) == value
    assert base64.b64decode(packed)[4:8] == bytes(4)
    with pytest.raises(ValueError, match="JSON"):
        pack([float("nan")])
    with pytest.raises(TypeError, match="set has no place on the page"):
        pack({1, 2})


def test_a_page_can_be_held_light_or_dark() -> None:
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    rules = themes(style)
    papers = re.findall(r"--paper: (#\w+);", rules)
    assert papers == re.findall(r"--paper: (#\w+);", style)[:2]
    assert re.findall(r'data-theme="(\w+)"', rules) == ["light", "dark"]
    assert rules.index("color-scheme: light;") < rules.index("color-scheme: dark;")
    with pytest.raises(HarnessError, match="palettes"):
        themes("body { margin: 0 }")


def test_a_link_holds_what_it_names_and_nothing_else() -> None:
    hostile = 'a&b="<x>" #%\ud800\u202e'
    link = explore_link("mail", "fts5", hostile, "q 1+2")
    page, state = link.split("#", maxsplit=1)
    assert page == "explore.html"
    assert parse_qs(state) == {
        "d": ["mail"], "a": ["fts5"], "b": ['a&b="<x>" #%\ufffd⟨U+202E⟩'], "q": ["q 1+2"],
    }  # fmt: skip
    assert not set('"<> +') & set(state)
    assert "q=" not in explore_link("mail", "a", "b")


def test_a_report_of_nothing_is_a_page() -> None:
    bare = replace(
        report_inputs.compared_only(), evidence={}, arms={}, means={}, differences={}, measure="AP"
    )
    found = data_of(to_explorer([bare]))
    assert found["values-0"]["arms"] == []
    assert found["values-0"]["measures"] == ["AP"]
    assert found["hits-0"]["shown"] == []
