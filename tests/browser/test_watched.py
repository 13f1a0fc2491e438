"""What watches the pages must itself see what they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.watched import Watched

pytestmark = pytest.mark.slow

HEAD = '<!doctype html><html lang="en"><title>page</title><main><h1>page</h1>'
FAULTS = {
    "a request": '<script>new Image().src = "https://example.org/x.png"</script>',
    "a line on the console": "<script>console.log('hello')</script>",
    "an error": "<script>throw new Error('no')</script>",
    "a dialog": "<script>setTimeout(() => alert('hello'))</script>",
    "a script of the data": "<script>window.executed = true</script>",
}


def opened(watched: Watched, folder: Path, body: str) -> Watched:
    file = folder / "page.html"
    file.write_text(HEAD + body, encoding="utf-8")
    watched.open(file).wait_for_timeout(50)
    return watched


def test_a_page_that_does_nothing_is_quiet(watched: Watched, tmp_path: Path) -> None:
    assert opened(watched, tmp_path, "<p>text").quiet()
    assert watched.grave() == []
    assert watched.overflow() == 0


@pytest.mark.parametrize("body", FAULTS.values(), ids=FAULTS)
def test_what_a_page_does_is_seen(watched: Watched, tmp_path: Path, body: str) -> None:
    assert not opened(watched, tmp_path, body).quiet()


def test_what_cannot_be_read_is_found(watched: Watched, tmp_path: Path) -> None:
    body = '<p style="color:#eee;background:#fff">faint</p><input>'
    found = opened(watched, tmp_path, body).grave()
    assert [one.split(":")[0] for one in found] == ["color-contrast", "label"]
    assert [one.split(":")[0] for one in watched.grave("label")] == ["label"]


def test_what_is_too_wide_is_measured(watched: Watched, tmp_path: Path) -> None:
    body = '<div style="width:2000px;height:1px"></div>'
    assert opened(watched, tmp_path, body).overflow() > 500
