"""The server's own pages in a browser: list, follow, judge by keyboard, and a run that appears."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, ViewportSize, expect

from harness.core.files import write_text
from harness.core.server import bound, server
from harness.corpus import judgements
from harness.serve.application import application
from harness.serve.shelf import folders
from tests.browser.watched import Watched
from tests.serve.conftest import make_pool, write_decision

pytestmark = pytest.mark.slow
SOON_MS = 20_000
SOONER = "const wait = setTimeout; window.setTimeout = (does, ms) => wait(does, ms / 20);"
"""The front page looks every two seconds; here ten times in one."""
STRANGE = """<!doctype html><title>strange</title><script>
document.title = "ran";
const ask = (window.opener ?? window).fetch;
ask("/judge/out/pool.qrels").then((answer) => { document.title = `asked: ${answer.status}`; });
</script><img src="data:," onerror="document.title = 'ran'">"""
"""A page with a script of somebody else."""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    write_decision(tmp_path / "reports", "mail")
    (tmp_path / "out").mkdir()
    made = make_pool(tmp_path / "out" / "pool.qrels")
    write_decision(tmp_path / "out" / ("long" * 40), "<script>window.executed = true" * 20)
    evil = "<img src=x onerror='window.executed = true'></script><script>window.executed = true"
    evil += "x" * 3000
    pairs = (made.pairs[0], made.pairs[1].model_copy(update={"query": evil, "snippet": evil}))
    write_text(
        judgements.texts_path(tmp_path / "out" / "pool.qrels"),
        judgements.PAIRS.text((*pairs, *made.pairs[2:])),
    )
    return tmp_path


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Serve on a thread; give what a person would open."""
    expect.set_options(timeout=SOON_MS)
    with bound("127.0.0.1", 0) as (listening, url):
        app = application(folders([site / "reports", site / "out"]), url)
        running = server(app)
        thread = Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        yield app.address
        running.should_exit = True
        thread.join()


@pytest.fixture
def tab(chromium: Browser, address: str) -> Iterator[Watched]:
    """Open the address in a tab with a network."""
    base = address.partition("?")[0]
    size: ViewportSize = {"width": 1280, "height": 900}
    with chromium.new_context(base_url=base, viewport=size) as context:
        context.add_init_script(SOONER)
        watched = Watched.watch(context.new_page())
        watched.page.goto(address)
        watched.page.wait_for_url("**/")
        yield watched


def calm(tab: Watched) -> bool:
    """Whether nothing was logged and no hostile text ran."""
    return tab.logged == [] and bool(tab.page.evaluate("window.executed === undefined"))


def test_the_servers_pages_can_be_read(tab: Watched) -> None:
    paths = ("/", "/judge/out/pool.qrels?at=1&done=0", "/judge/out/pool.qrels?at=9", "/no")
    for path in paths:
        tab.page.goto(path)
        assert tab.grave() == [], path
        tab.page.emulate_media(color_scheme="dark")
        assert tab.grave("color-contrast") == [], path
        tab.page.emulate_media(color_scheme="light")
        for width in (1280, 390):
            tab.page.set_viewport_size({"width": width, "height": 800})
            assert tab.overflow() == 0, (path, width)
    tab.logged[:] = [line for line in tab.logged if "404" not in line]
    assert calm(tab)


def test_a_newer_run_is_told_on_the_list(tab: Watched, site: Path) -> None:
    page = tab.page
    expect(page.locator("#watch")).to_have_text("Watching for new runs.")
    link = page.get_by_role("list", name="Files of reports").get_by_text("decision.json")
    link.focus()
    write_decision(site / "reports", "renewed")
    expect(page.locator("#watch")).to_have_text("A newer run is there: reports.")
    expect(page.locator("main")).to_contain_text("renewed")
    expect(page.locator(".newer:visible")).to_have_text("newer")
    expect(link).to_be_focused()
    assert page.title() == "(1) Search reports"
    for file in (site / "reports").iterdir():
        file.unlink()
    expect(page.locator(".entry", has_text="reports")).to_have_count(0)
    assert tab.grave() == []
    assert calm(tab)


def test_a_page_of_somebody_else_runs_no_script(tab: Watched, site: Path) -> None:
    (site / "reports" / "index.html").write_text(STRANGE, encoding="utf-8")
    report, logged = tab.page, list[str]()
    report.on("console", lambda message: logged.append(message.text))
    report.goto("/files/reports/index.html")
    assert report.title() == "strange"
    assert len([line for line in logged if "Content Security Policy" in line]) == 2, logged


def test_pairs_are_judged_by_keyboard(tab: Watched, site: Path) -> None:
    page, path = tab.page, site / "out" / "pool.qrels"
    page.get_by_role("link", name="out/pool.qrels").click()
    expect(page.locator(".asked")).to_have_text("question 0")
    page.keyboard.press("7")
    page.keyboard.press("Control+1")
    page.keyboard.press("2")
    expect(page.locator(".asked")).to_contain_text("<img src=x")
    assert judgements.read_pool(path).grades == (2, None, None, None)
    page.keyboard.press("0")
    expect(page.locator(".asked")).to_have_text("question 2")
    assert judgements.read_pool(path).grades == (2, 0, None, None)
    page.keyboard.press("u")
    expect(page.locator(".asked")).to_contain_text("<img src=x")
    page.keyboard.press("s")
    expect(page.locator(".asked")).to_have_text("question 2")
    assert judgements.read_pool(path).grades == (2, None, None, None)
    page.keyboard.press("q")
    expect(page.locator(".pools")).to_contain_text("1 of 4 judged")
    assert calm(tab)


def test_buttons_judge_without_a_script_too(chromium: Browser, address: str, site: Path) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(address)
        page.get_by_role("link", name="out/pool.qrels").click()
        page.get_by_role("button", name="3 most relevant").click()
        expect(page.locator(".progress")).to_contain_text("1 of 4 pairs judged")
        page.get_by_role("button", name="undo").click()
        expect(page.locator(".asked")).to_have_text("question 0")
        assert judgements.read_pool(site / "out" / "pool.qrels").grades == (None,) * 4
        page.goto(f"{address.partition('?')[0]}files/reports/index.html")
        assert page.title() == "report"
