"""Every fault of the list dies by its tests; asked for by ``--all``."""

from dataclasses import replace

import pytest

from tests.mutants.listed import Bench, Fate, Mutant, mutants

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Copy the project, once in each process."""
    return Bench.of(tmp_path_factory.mktemp("bench") / "project")


def alone() -> list[Mutant]:
    """Return each fault with its tests; one that breaks promises with each test by itself."""
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
    fate, said = bench.fate(mutant)
    wanted = Fate.SURVIVED if mutant.survives else Fate.KILLED
    assert fate is wanted, f"{mutant.id}: {fate}, though {mutant.why}\n{said[-4000:]}"


@pytest.mark.parametrize("test", sorted({test for one in mutants() for test in one.tests}))
def test_without_a_fault_its_tests_pass(test: str, bench: Bench) -> None:
    fate, said = bench.run([test])
    assert fate is Fate.SURVIVED, said[-4000:]
