"""Live comparisons of engines from the command line."""

import re
from pathlib import Path

import pytest

from harness.cli.project import Project
from harness.clicks.credit import Click, ClickLog, ShownList
from harness.shadow.commands import FOLDER, log_folder
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.cli.conftest import Harness
from tests.cli.owned import CLICK_ARMS, CLICKED_AT, write_clicks
from tests.make import shadow_log as live_log
from tests.make.shadow_records import WATCH
from tests.make.toy import NAME, Toy

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
    assert second == (
        "50 attempts; shed (not sent to the candidate, to spare the machine): 0; lost: 0;"
        " faults of our own: 0."
    )
    assert last == f"The log: {tmp_path / 'log'}"
    again = harness("shadow", "run", *ARMS, *where, "--count", 4, "--rate", 100)
    assert again.out.startswith("4 queries, ")
    assert "54" in harness("shadow", "watch", tmp_path / "log").out


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


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("watch", "nowhere"), r"nowhere: its log is missing .* Give a folder"),
        (("watch", "LOG", "LOG"), "give each log once"),
        (("watch", "LOG", "--bounds", "none.toml"), r"none\.toml: cannot be read"),
        (("accept", "--class", "error"), "no class that can be accepted named 'error'"),
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


OWN = FOLDER / "mail-tantivy"


@pytest.mark.parametrize(
    ("given", "switch", "may_change", "found"),
    [
        ("", KillSwitch.SHADOW, False, OWN),
        ("", None, True, OWN),
        ("", None, False, None),
        ("mine", KillSwitch.SHADOW, False, Path("mine")),
    ],
)
def test_a_log_is_where_a_shadow_can_be(
    tmp_path: Path, given: str, switch: KillSwitch | None, found: Path | None, *, may_change: bool
) -> None:
    project = Project(tmp_path)
    arm = arms.load("mail-tantivy", tmp_path)
    named = Path(given) if given else None
    folder = log_folder(project, arm, named, switch, may_change=may_change)
    assert folder == (tmp_path / OWN if found == OWN else found)


def test_a_log_says_whom_users_prefer(project: Toy, harness: Harness) -> None:
    folder = project.root / "clicks"
    write_clicks(folder, "red")
    log = ClickLog(folder)
    alone = ShownList("x", CLICKED_AT, "red", ("fts5",), ("d00",), (0,))
    failed = ShownList("y", CLICKED_AT, "red", CLICK_ARMS, ("d00",), (0,), "tantivy: down")
    unknown = ShownList("z", CLICKED_AT, "red", CLICK_ARMS, ("d00",), (0,))
    robot = [
        ShownList(f"r{at}", CLICKED_AT, "red", CLICK_ARMS, ("d00",), (0,), user="robot")
        for at in range(61)
    ]
    records: tuple[ShownList | Click, ...] = (alone, failed, unknown, *robot, Click("none", "d00"))
    for record in records:
        log.add(record)
    log.close()
    said = harness("clicks", "report", "clicks")
    assert said.code == 0, said
    assert "40 users saw 40 mixed lists and clicked 40 documents" in said.out
    assert "tantivy against fts5: +1.000 [" in said.out
    assert "(40 to 0, 0 ties): tantivy is preferred" in " ".join(said.out.split())
    assert "1 list was the control's own, because an arm failed" in said.out
    assert "1 user is left out as robots: more than 60 lists within an hour" in said.out
    assert "1 list is left out: its user is unknown" in said.out
    assert "1 list was shown while mixing was off" in said.out
    assert "1 click is on no list or document of the log" in said.out
