"""What is done once in a process is done anew where what it rests on has changed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import EvidenceError
from harness.pipeline import verify
from harness.pipeline.derive import Derived
from harness.pipeline.layout import Layout
from tests import once_a_process


@dataclass(frozen=True)
class Judged:
    """A decision's subject: what counts of it, and where its policy lies."""

    policy: str
    policy_file: Path | None


SUBJECT = Judged("policy", None)


def test_a_decision_is_derived_again_where_a_file_of_it_or_what_is_said_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    derived: list[None] = []
    wrong = tmp_path / "build" / "wrong"

    def derive(*_: object) -> Derived:
        derived.append(None)
        if wrong.exists():
            raise EvidenceError("a value differs")
        return Derived(len(derived), 1)

    monkeypatch.setattr(once_a_process, "derive", derive)
    layout = Layout(tmp_path / "build", tmp_path / "perf", tmp_path / "cache")
    plain, run, race = vars(verify)["derive"], layout.root / "run", layout.today / "race"
    for path in (run, race):
        path.parent.mkdir()
        path.write_text("1", encoding="utf-8")

    def asked(about: str = "", subject: Any = SUBJECT) -> int:  # noqa: ANN401  below
        found: Derived = vars(verify)["derive"](layout, about, subject)
        return found.values

    with once_a_process.derivations():
        assert [asked(), asked()] == [1, 1]
        run.write_text("2", encoding="utf-8")
        assert asked() == 2
        race.write_text("2", encoding="utf-8")
        assert [asked(), asked("other"), asked()] == [3, 4, 3]
        assert asked(subject=Judged("other policy", None)) == 5
        assert asked(subject=Judged("policy", tmp_path)) == 3
        copy = shutil.copytree(tmp_path, tmp_path / "copy")
        layout = Layout(copy / "build", copy / "perf", copy / "cache")
        assert asked() == 3
        wrong = layout.root / "wrong"
        wrong.touch()
        for _ in range(2):
            with pytest.raises(EvidenceError, match="a value differs"):
                asked()
    assert len(derived) == 7
    assert vars(verify)["derive"] is plain
