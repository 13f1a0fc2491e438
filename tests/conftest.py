"""A small project that every stage ran on once, and copies of it to spoil.

Much is imported where it is used: this file is read before the smallest test.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.pop("HARNESS_CALLED", None)  # what is printed is as in an installed environment
os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # on matrices as small as ours, more only wait

import pytest
from hypothesis import settings

from tests import programs
from tests.absent import absent, needs_absent
from tests.thinned import PROFILES, thin

if TYPE_CHECKING:
    from tests.make.toy import Toy


SELDOM = 20_000
"""Objects made after which garbage is looked for; Python's own number is 700."""
LONGEST = (
    "docs/test_run_commands.py", "oracle/test_golden.py", "test_house.py",
    "engines/test_contract.py", "browser/test_pages.py", "cli/test_fuzzed.py",
    "docs/test_notebooks.py", "cli/test_ci.py", "cli/test_boundary.py", "load/test_loads.py",
    "pipeline/test_oneshot.py", "crash/test_crash.py", "test_patterns.py", "test_slices.py",
    "test_package.py", "mutants/test_listed.py",
)  # fmt: skip
"""Files that take longest, dealt first, so that no process ends long after the others."""
FEW, MANY = 40, 400
"""Examples of a property, where its test names no number; the second under ``--all``."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know ``--all``, what a night has time for."""
    said = "Draw simulations large, try every case of every test, and all mutants"
    parser.addoption("--all", action="store_true", help=said)
    parser.addoption("--most-skipped", type=int, help="Fail where more tests than this are skipped")


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the process: signals, and profiles of hypothesis."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's job that ends in ``&``
        signal.signal(signal.SIGINT, signal.default_int_handler)
    every = bool(config.getoption("--all"))
    settings.register_profile(PROFILES[every], deadline=None, max_examples=MANY if every else FEW)
    settings.load_profile(PROFILES[every])
    programs.read_back()
    if not every:
        programs.fork()
        programs.no_waiting()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that skipped more tests than ``--most-skipped``."""
    most = session.config.getoption("--most-skipped")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if most is None or reporter is None:
        return
    if (skipped := len(reporter.stats.get("skipped", []))) > most:
        reporter.write_line(f"\n{skipped} tests are skipped, at most {most} may be.", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Return one process more than processors: a test that waits for a server leaves one idle."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    linux = sys.platform == "linux"
    return 1 + (len(os.sched_getaffinity(0)) if linux else os.cpu_count() or 1)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Pass over what tests a slice that was deleted."""
    test = collection_path.suffix == ".py" or collection_path.is_dir()
    return True if test and absent() and needs_absent(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave to ``--all`` what is marked so, but what is named by its id; begin with the longest."""
    thin(config, items)
    rank = {str(config.rootpath / "tests" / name): at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(str(item.path), len(rank)))


def pytest_collectstart() -> None:
    """Look for no garbage while tests are collected: hardly any of what that makes is given up."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Spare every later look for garbage the million objects that collecting tests made.

    The looks are rarer too: they find little, and take a thirtieth of the suite.
    """
    gc.freeze()
    gc.set_threshold(SELDOM)
    gc.enable()


@pytest.fixture
def draws(pytestconfig: pytest.Config) -> Callable[[int, int], int]:
    """How often a simulation draws: the first number it names, under ``--all`` the second."""
    return lambda few, many: many if pytestconfig.getoption("--all") else few


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Run the stages up to the race once; a test may read it and must not write to it."""
    from harness.cli.project import Project
    from tests.make import toy

    def made(root: Path) -> None:
        toy.make(root).measure(timed=True)

    return toy.Toy(Project(programs.once(tmp_path_factory, "measured", made)))


@pytest.fixture
def project(measured: Toy, tmp_path: Path) -> Toy:
    """Copy it, for a test to do with as it likes."""
    return measured.copied(tmp_path / "project")


@pytest.fixture
def anew() -> Iterator[None]:
    """Start Python anew for each process, for tests that look at the processes themselves."""
    with programs.anew():
        yield


@pytest.fixture(scope="module")
def read_once() -> Iterator[None]:
    """Make each model be loaded, and read a text, once in this process."""
    from tests import once_a_process

    with once_a_process.models():
        yield


@pytest.fixture(scope="module")
def derived_once(pytestconfig: pytest.Config) -> Iterator[None]:
    """Derive each decision again once in this process while its files stay; ``--all`` always."""
    from tests import once_a_process

    if pytestconfig.getoption("--all"):
        yield
        return
    with once_a_process.derivations():
        yield


def _undrawn(pytestconfig: pytest.Config) -> Iterator[None]:
    """Write empty pictures on pages, for tests that do not look at them; painted by ``--all``."""
    from tests import once_a_process

    with once_a_process.pictures(painted=bool(pytestconfig.getoption("--all"))):
        yield


undrawn = pytest.fixture(_undrawn)
none_drawn = pytest.fixture(scope="module")(_undrawn)
