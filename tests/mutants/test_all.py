"""Every fault of the list dies by its tests; asked for by ``--all``.

What was found is kept in ``.cache/mutants`` while neither the code nor the tests around change, so
a run that was stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.listed import Mutant, mutants
from tests.mutants.trial import Bench, Fate
from tests.source import ROOT

pytestmark = pytest.mark.slow
KEPT = ROOT / ".cache" / "mutants"


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Copy the project, once in each process."""
    return Bench.of(tmp_path_factory.mktemp("bench") / "project")


@cache
def content(room: str) -> str:
    """Digest of all files of a folder, or of the files that lie in it."""
    folder, every = ROOT / room.rstrip("*"), "*.*" if room.endswith("*") else "**/*.*"
    found = hashlib.sha256()
    for path in sorted(folder.glob(every)):
        if path.is_file() and path.suffix != ".pyc":
            found.update(path.as_posix().encode() + path.read_bytes())
    return found.hexdigest()


def kept(mutant: Mutant) -> Path:
    """Name what is kept of a fault by all that its fate depends on."""
    near = sorted({Path(test.partition("::")[0]).parts[1] for test in mutant.tests})
    rooms = ("harness", "engines", "benchmarks", "tests/*", *(f"tests/{room}" for room in near))
    depends_on = " ".join([str(mutant), *map(content, rooms)])
    return KEPT / hashlib.sha256(depends_on.encode()).hexdigest()[:32]


def alone() -> list[Mutant]:
    """Give each fault with its tests; one that breaks promises with each test by itself."""
    return [
        replace(one, by=by)
        for one in mutants()
        for by in (((test,) for test in one.by) if one.rows else (one.by,))
    ]


def named(mutant: Mutant) -> str:
    """Name a fault, and whether it breaks a promise of docs/trust.md, for ``-k promise``."""
    return f"{'promise-' if mutant.promise else ''}{mutant.id}-{mutant.by[0]}"


@pytest.mark.parametrize("mutant", alone(), ids=named)
def test_a_fault_dies(mutant: Mutant, bench: Bench) -> None:
    if kept(mutant).exists():
        return
    fate, said = bench.fate(mutant)
    wanted = Fate.SURVIVED if mutant.survives else Fate.KILLED
    assert fate is wanted, f"{mutant.id}: {fate}, though {mutant.why}\n{said[-4000:]}"
    KEPT.mkdir(parents=True, exist_ok=True)
    kept(mutant).touch()


@pytest.mark.parametrize("test", sorted({test for one in mutants() for test in one.tests}))
def test_without_a_fault_its_tests_pass(test: str, bench: Bench) -> None:
    fate, said = bench.run([test])
    assert fate is Fate.SURVIVED, said[-4000:]
