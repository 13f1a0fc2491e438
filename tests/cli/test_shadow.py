"""Live comparisons of engines from the command line."""

import re
from pathlib import Path

import pytest

from harness.cli.project import Project
from harness.clicks.credit import Click, ClickLog, ShownList
from harness.shadow.commands import FOLDER, log_folder
from harness.shadow.log import LogWriter, read_logs
from harness_engines import registry as arms
from harness_engines.stacks.agent_mail.pipeline.plan import KillSwitch
from tests.cli.conftest import Harness
from tests.cli.owned import CLICK_ARMS, CLICKED_AT, write_clicks
from tests.make import shadow_log as live_log
from tests.make.shadow_records import WATCH
from tests.make.toy import NAME, Toy

pytestmark = pytest.mark.slow
SETTINGS = WATCH.parent / "shadow.toml"
ARMS = ("--dataset", NAME, "--control", "fts5", "--candidate", "tantivy")


@pytest.fixture
def log(project: Toy) -> Path:
    """Write a log, the bounds and an empty register into the project."""
    (project.root / "policy" / "watch.toml").write_text(WATCH.read_text(encoding="utf-8"))
    (project.root / "policy" / "accepted.toml").write_text("")
    folder = project.root / "out" / "shadow"
    live_log.write(project, folder)
    return folder


@pytest.mark.usefixtures("log")
def test_questions_are_run_and_then_watched(harness: Harness, tmp_path: Path) -> None:
    where = ("--out", tmp_path / "log", "--shadow-settings", SETTINGS)
    said = harness("shadow", "run", *ARMS, *where, "--count", 50)
    assert said.code == 0
    first, last = said.out.splitlines()
    assert first == (
        "50 attempts; shed (not sent to the candidate, to spare the machine): 0; lost: 0;"
        " faults of our own: 0."
    )
    assert last == f"The log: {tmp_path / 'log'}"
    assert harness("shadow", "run", *ARMS, *where, "--count", 4).code == 0
    assert "54" in harness("shadow", "report", tmp_path / "log").out


ENTRY = """
[[accepted]]
class = "{}"
reason = "known"
by = "Ada"
until = 2099-01-01
"""
KINDS = ("reorder", "tie_order", "overlap", "expansion", "truncation", "disjoint", "shadow_empty",
         "serving_empty")  # fmt: skip


def test_the_exit_code_of_a_report(harness: Harness, log: Path, project: Toy) -> None:
    words = ("shadow", "report", log, "--exit-code")
    assert harness(*words).code == 1
    suppressions = project.root / "policy" / "accepted.toml"
    suppressions.write_text("".join(map(ENTRY.format, KINDS)))
    said = harness(*words)
    assert said.code == 3
    assert "every divergence is accepted." in said.out.splitlines()[0]
    suppressions.write_text(suppressions.read_text().replace("2099", "2026"))
    said = harness(*words)
    assert said.code == 1
    assert "expired" in said.out


def test_what_diverged_is_run_again(harness: Harness, log: Path, tmp_path: Path) -> None:
    words = ("--queries", log, "--out", tmp_path / "again", "--shadow-settings", SETTINGS)
    assert harness("shadow", "run", *ARMS, *words).code == 0
    said = harness(
        "shadow", "report", tmp_path / "again", "--exit-code", "--out", tmp_path / "page"
    )
    assert said.code == 1
    assert said.out.splitlines()[-1] == f"The page: {tmp_path / 'page' / 'index.html'}"
    diverged = {one.text for one in read_logs(tmp_path / "again").divergences}
    before = {one.text for one in read_logs(log).divergences}
    assert diverged == before - {live_log.MENDED}
    equal = tmp_path / "equal"
    with LogWriter(equal):
        pass
    words = ("--queries", equal, "--out", tmp_path / "none", "--shadow-settings", SETTINGS)
    none = harness("shadow", "run", *ARMS, *words)
    assert (none.code, none.out) == (0, f"Nothing diverged in {equal}, so nothing is run.\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("report", "nowhere"), r"nowhere: its log is missing .* Give a folder"),
        (("report", "LOG", "LOG"), "give each log once"),
        (("report", "LOG", "--bounds", "none.toml"), r"none\.toml: cannot be read"),
    ],
)
def test_what_is_wrong_is_one_line(
    harness: Harness, log: Path, words: tuple[str, ...], says: str
) -> None:
    typed = [str(log) if word == "LOG" else word for word in words]
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
