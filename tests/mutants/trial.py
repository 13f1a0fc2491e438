"""Plants a fault in a copy of the project and runs the tests that are to notice it."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest

from tests.mutants.listed import Mutant
from tests.mutants.plant import plant
from tests.source import ROOT

LONGEST_S = 120
KEPT_AWAY = shutil.ignore_patterns("__pycache__")
LINKED, COPIED = (".venv",), ("harness", "engines", "tests", "benchmarks", "examples", "ci")


class Fate(StrEnum):
    """What became of a fault."""

    KILLED = "killed"
    SURVIVED = "survived"
    BROKEN = "broken"
    """The tests did not run: the fault is no fault, or a test is not there."""


@dataclass(frozen=True)
class Bench:
    """A copy of the project, in which one fault at a time is planted."""

    root: Path
    moments: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """When a file was changed: compiled modules are told apart by seconds, and we are quicker."""

    @classmethod
    def of(cls, root: Path) -> Bench:
        """Copy what tests run, and link the rest."""
        root.mkdir(parents=True)
        for path in ROOT.iterdir():
            if path.name in COPIED:
                shutil.copytree(path, root / path.name, ignore=KEPT_AWAY, symlinks=True)
            elif path.name != ".git":
                (root / path.name).symlink_to(path)
        return cls(root)

    @contextmanager
    def spoilt(self, mutant: Mutant) -> Iterator[None]:
        """Plant a fault, and take it back."""
        spoilt = {self.root / file: text for file, text in plant(mutant).items()}
        honest = {path: path.read_text("utf-8") for path in spoilt}
        self._write(spoilt)
        try:
            yield
        finally:
            self._write(honest)

    def _write(self, texts: Mapping[Path, str]) -> None:
        for path, text in texts.items():
            path.write_text(text, "utf-8")
            moment = next(self.moments)
            os.utime(path, (moment, moment))

    def fate(self, mutant: Mutant) -> tuple[Fate, str]:
        """Try one fault; what was said beside it, for people."""
        with self.spoilt(mutant):
            return self.run(mutant.tests)

    def run(self, tests: Sequence[str]) -> tuple[Fate, str]:
        """Run tests of the copy up to the first that fails; whoever hangs has noticed."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
        env = {
            **kept,
            "PYTHONPATH": f"{self.root}:{self.root / 'engines'}",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.root),
        }
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        try:
            done = subprocess.run(
                command,
                cwd=self.root,
                env=env,
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Fate.KILLED, f"no answer within {LONGEST_S} s"
        said = done.stdout + done.stderr
        ends = {pytest.ExitCode.OK: Fate.SURVIVED, pytest.ExitCode.TESTS_FAILED: Fate.KILLED}
        return ends.get(pytest.ExitCode(done.returncode), Fate.BROKEN), said
