"""Live comparisons of engines from the command line."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from rich.live import Live

from harness.cli.project import Project
from harness.pipeline.layout import Layout
from harness.report.doc import render_terminal
from harness.shadow import commands as shadow
from harness.shadow.commands import FOLDER, log_folder, log_of, screen, today
from harness.shadow.comparison import ShadowLog
from harness.shadow.words import LogState
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.cli.conftest import Harness
from tests.make import shadow_log as live_log
from tests.make.shadow_records import WATCH
from tests.make.toy import NAME, Toy
from tests.report.test_shadow import HOSTILE, empty, found

pytestmark = pytest.mark.slow
LATER = "2099-01-01"
ARMS = ("--dataset", NAME, "--control", "fts5", "--candidate", "tantivy")


@pytest.fixture
def log(project: Toy) -> Path:
    """Write a log, the bounds and an empty register into the project."""
    (project.root / "policy" / "watch.toml").write_text(WATCH.read_text(encoding="utf-8"))
    (project.root / "policy" / "accepted.toml").write_text("")
    folder = project.root / "out" / "shadow"
    live_log.write(project, folder)
    return folder


def accept(harness: Harness, *words: str) -> None:
    base = ("shadow", "accept", "--reason", "known", "--by", "Ada", "--until", LATER)
    assert harness(*base, *words).code == 0


@pytest.mark.usefixtures("log")
def test_questions_are_run_and_then_watched(harness: Harness, tmp_path: Path) -> None:
    settings = tmp_path / "shadow.toml"
    settings.write_text((WATCH.parent / "shadow.toml").read_text(encoding="utf-8"))
    where = ("--out", tmp_path / "log", "--shadow-settings", settings)
    said = harness("shadow", "run", *ARMS, *where, "--count", 50)
    assert said.code == 0
    first, second, last = said.out.splitlines()
    assert first.startswith("50 queries, ")
    assert second == "50 attempts; shed: 0; lost: 0; faults of our own: 0."
    assert last == f"The log: {tmp_path / 'log'}"
    again = harness("shadow", "run", *ARMS, *where, "--titles", "--count", 4, "--rate", 100)
    assert again.out.startswith("4 queries, ")
    assert "54" in harness("shadow", "watch", tmp_path / "log").out


def test_questions_of_a_file_are_run(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "asked.jsonl").write_text('{"_id": "a", "text": "bolo"}\n')
    settings = tmp_path / "shadow.toml"
    shown = (WATCH.parent / "shadow.toml").read_text(encoding="utf-8")
    settings.write_text(shown.replace("rate = 1000000", "rate = 0"))
    words = ("--out", tmp_path / "log", "--shadow-settings", settings)
    said = harness("shadow", "run", *ARMS, *words, "--queries", tmp_path / "asked.jsonl")
    assert said.code == 3
    assert "1 query" in said.out
    assert "0 attempts" in said.out
    both = ("--titles", "--queries", tmp_path / "asked.jsonl")
    assert "leave one of them out" in harness("shadow", "run", *ARMS, *words, *both).error


def test_what_is_watched_is_printed_once_where_nobody_looks(harness: Harness, log: Path) -> None:
    said = harness("shadow", "watch", log)
    assert said.code == 0
    assert "diverged without being accepted" in said.out.splitlines()[0]
    counts = next(line for line in said.out.splitlines() if line.startswith("83 "))
    assert counts.split()[:2] == ["83", "83"]
    for part in ("overlap: mean Jaccard", "median of candidate / control", "churn candidate",
                 "mix", "shadow_empty", live_log.MENDED):  # fmt: skip
        assert part in said.out


def test_the_exit_code_of_watch(harness: Harness, log: Path, project: Toy) -> None:
    assert harness("shadow", "watch", log, "--once", "--exit-code").code == 1
    for kind in ("reorder", "tie_order", "overlap", "expansion", "truncation", "disjoint",
                 "shadow_empty", "serving_empty"):  # fmt: skip
        accept(harness, "--class", kind)
    said = harness("shadow", "watch", log, "--once", "--exit-code")
    assert said.code == 3
    assert "every divergence is accepted." in said.out.splitlines()[0]
    suppressions = project.root / "policy" / "accepted.toml"
    suppressions.write_text(suppressions.read_text().replace(LATER, "2026-01-01"))
    said = harness("shadow", "watch", log, "--once", "--exit-code")
    assert said.code == 1
    assert "expired" in said.out


def test_what_diverged_is_asked_again(harness: Harness, log: Path) -> None:
    said = harness("shadow", "replay", log, *ARMS)
    assert said.code == 1
    assert re.search(r"(\d+) queries diverged: 1 fixed, (\d+) still diverges, 0 changed", said.out)
    assert "the control itself" not in said.out
    assert live_log.MENDED not in said.out


def test_what_is_accepted_does_not_stand_in_the_way(harness: Harness, log: Path) -> None:
    again = harness("shadow", "replay", log, *ARMS)
    classes = set(re.findall(r"\b(reorder|tie_order|overlap|truncation|expansion)\b", again.out))
    for kind in classes:
        accept(harness, "--class", kind)
    said = harness("shadow", "replay", log, *ARMS)
    assert said.code == 0
    assert said.out.splitlines()[-1] == "0 block the next step."


def test_an_arm_that_changed_is_another_comparison(harness: Harness, log: Path) -> None:
    said = harness("shadow", "replay", log, "--dataset", NAME, "--control", "hash-hybrid",
                   "--candidate", "tantivy")  # fmt: skip
    assert "the control itself shows something else than it did" in said.out


def test_the_same_arm_twice_is_refused(harness: Harness, log: Path) -> None:
    same = ("--dataset", NAME, "--control", "fts5", "--candidate", "fts5")
    assert "compared with itself" in harness("shadow", "replay", log, *same).error


def test_the_report_is_a_page_and_json(harness: Harness, log: Path, project: Toy) -> None:
    out = project.root / "out" / "page"
    said = harness("shadow", "report", log, "--out", out)
    assert said.code == 0
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Side by side" in page
    assert live_log.MENDED in page
    found = json.loads((out / "shadow.json").read_text(encoding="utf-8"))
    assert found["tally"]["attempted"] == found["tally"]["compared"] == 83
    assert found["as_of"] == today().isoformat()
    before = (out / "index.html").read_bytes()
    assert harness("shadow", "report", log, "--out", out).code == 0
    assert (out / "index.html").read_bytes() == before


def test_two_logs_are_read_as_one(harness: Harness, log: Path, project: Toy) -> None:
    other = project.root / "out" / "other"
    live_log.write(project, other, live_log.BEGAN + 1)
    said = harness("shadow", "watch", log, other)
    assert any(line.startswith("166 ") for line in said.out.splitlines())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("watch", "nowhere"), r"nowhere: its log is missing .* Give a folder"),
        (("watch", "LOG", "LOG"), "give each log once"),
        (("watch", "LOG", "--bounds", "none.toml"), r"none\.toml: cannot be read"),
        (("watch", "LOG", "--register", "none.toml"), "Write an empty file to accept nothing"),
        (("report", "nowhere", "--out", "x"), "its log is missing"),
        (("replay", "LOG", "--dataset", "none", *ARMS[2:]), "no dataset named 'none'"),
        (("accept", "--class", "ties"), "no class that can be accepted named 'ties'; there is"),
        (("accept", "--class", "error"), "no class that can be accepted named 'error'"),
        (("accept", "--slice", "id"), "name a class or a query"),
        (("accept", "--query", "12"), "query"),
        (("accept", "--class", "reorder", "--until", "2026-01-01"), "has passed"),
    ],
)
def test_what_is_wrong_is_one_line(
    harness: Harness, log: Path, words: tuple[str, ...], says: str
) -> None:
    typed = [str(log) if word == "LOG" else word for word in words]
    if words[0] == "accept":
        typed += ["--reason", "r", "--by", "b"]
        typed += [] if "--until" in words else ["--until", LATER]
    assert re.search(says, harness("shadow", *typed).error)


def test_a_torn_and_a_foreign_line(harness: Harness, log: Path) -> None:
    last = max(log.glob("observations.*"))
    whole = last.read_bytes()
    last.write_bytes(whole + b'{"format":1,"num')
    assert harness("shadow", "watch", log).code == 0
    last.write_bytes(whole + b"{}\n")
    line = whole.count(b"\n") + 1
    assert (
        f"{last.name}:{line}: the line does not start with" in harness("shadow", "watch", log).error
    )


def test_accepting_says_what_and_where(harness: Harness, log: Path, project: Toy) -> None:
    key = json.loads(next(log.glob("observations.*")).read_text().splitlines()[0])["query"]
    said = harness("shadow", "accept", "--query", key, "--reason", "r", "--by", "b",
                   "--until", LATER)  # fmt: skip
    assert f"query {key} is accepted until {LATER}" in said.out
    assert key in (project.root / "policy" / "accepted.toml").read_text()
    again = harness("shadow", "accept", "--query", key, "--reason", "r", "--by", "b",
                    "--until", LATER)  # fmt: skip
    assert (again.code, again.out) == (0, said.out)
    assert (project.root / "policy" / "accepted.toml").read_text().count(key) == 1
    assert log.exists()


def printed(shown: LogState, width: int, *, top: int = 10) -> str:
    said = StringIO()
    Console(file=said, width=width, highlight=False).print(render_terminal(screen(shown, top=top)))
    return said.getvalue()


@pytest.mark.parametrize("width", [80, 120, 200])
def test_it_fits_and_the_worst_comes_first(width: int) -> None:
    lines = printed(found(), width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("1 alarm raised (duplicates); mean Jaccard of the first hits")
    alarms = next(n for n, line in enumerate(lines) if line.startswith("Alarms"))
    assert "RAISED" in lines[alarms + 2]


def test_control_characters_and_markup_are_not_obeyed() -> None:
    text = printed(found(), 200)
    assert HOSTILE not in text
    assert "<script>alert(1)</script>⟨U+202E⟩" in text


def test_no_query_is_shown_where_none_is_wanted() -> None:
    assert "<script>alert(1)</script>⟨U+202E⟩&amp;\n" not in printed(found(), 200, top=0)


def test_an_empty_log_can_be_shown() -> None:
    assert "nothing yet" in printed(empty(), 100)


def test_the_exit_code_is_that_of_what_is_shown() -> None:
    assert shadow.code(found()) == 1
    assert shadow.code(empty()) == 3


def test_it_can_be_shown_live() -> None:
    said = StringIO()
    console = Console(file=said, width=100, height=30, force_terminal=True)
    with Live(console=console, auto_refresh=False) as live:
        live.update(render_terminal(screen(found(), top=5)), refresh=True)
        live.update(render_terminal(screen(empty(), top=5)), refresh=True)
    assert "nothing yet" in said.getvalue()


OWN = FOLDER / "mail-tantivy"


@pytest.mark.parametrize(
    ("given", "switch", "may_change", "found"),
    [
        ("", KillSwitch.SHADOW, False, OWN),
        ("", None, True, OWN),
        ("", KillSwitch.FTS5, False, None),
        ("", None, False, None),
        ("mine", None, False, Path("mine")),
        ("mine", KillSwitch.SHADOW, False, Path("mine")),
    ],
)
def test_a_log_is_where_a_shadow_can_be(
    tmp_path: Path,
    given: str,
    switch: KillSwitch | None,
    found: Path | None,
    *,
    may_change: bool,
) -> None:
    project = Project(tmp_path)
    arm = arms.load("mail-tantivy", tmp_path)
    named = Path(given) if given else None
    folder = log_folder(project, arm, named, switch, may_change=may_change)
    assert folder == (tmp_path / OWN if found == OWN else found)


def test_the_settings_of_the_program_are_read_where_a_project_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "params.yaml").write_text("datasets: []\n")
    monkeypatch.chdir(tmp_path)
    layout = Layout(tmp_path / "build", tmp_path / "perf", tmp_path / "cache")
    log = log_of(tmp_path / "log", None, layout.root)
    assert isinstance(log, ShadowLog)
    assert log.settings.limits.in_flight >= 1
