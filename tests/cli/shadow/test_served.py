"""Where a mail server that may serve with a shadow writes what it compares."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines import registry as arms
from engines.stacks.agent_mail.pipeline.plan import KillSwitch
from harness.cli.project import Project
from harness.pipeline.layout import Layout
from harness.shadow.commands import FOLDER, log_folder, log_of
from harness.shadow.comparison import ShadowLog

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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "params.yaml").write_text("datasets: []\n")
    monkeypatch.chdir(tmp_path)
    layout = Layout(tmp_path / "build", tmp_path / "perf", tmp_path / "cache")
    log = log_of(tmp_path / "log", None, layout)
    assert isinstance(log, ShadowLog)
    assert log.settings.limits.in_flight >= 1
    assert str(tmp_path / "log") in capsys.readouterr().err
