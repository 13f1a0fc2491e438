"""Plant each fault of the list in a process of its own, and see what notices: cassettes or goldens.

Asked are only cases that ran the function which the fault changes; where it changes a module or a
class itself, those that ran anything of that module or of one that imports it.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import inspect
import os
import pickle
import re
import resource
import subprocess
import sys
import threading
import time
import types
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.machinery import SourceFileLoader
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from tests.mutants.listed import Mutant
from tests.mutants.plant import plant
from tests.oracle import cassettes_replay as replaying
from tests.oracle import golden
from tests.oracle.cassettes import found
from tests.source import ROOT, known, of_ours

LONGEST_S = 20
DEFINES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
APART = re.compile(
    r"tests/crash|killed|living|many_processes|at_once|two_writers|_one_tick|_flocks|interrupt"
    r"|signal_breaks|is_completed|wherever_it_ends|power_loss|synced|durable|_disk\b|_disk_|_room_"
)
"""Tests of crashes, locks, races and full disks: a recorded call cannot show what they look at."""
Place = tuple[str, str, int]
"""A case: room, function, number."""


class Fate(NamedTuple):
    """What noticed a fault (``missed``, if nothing), by what difference, in which case."""

    kind: str
    said: str = ""
    place: Place | None = None


def changed(honest: str, spoilt: str) -> set[str]:
    """Name the functions and methods that differ; an empty name is the module or a class itself."""
    pairs: list[tuple[str, Any, Any]] = [("", ast.parse(honest), ast.parse(spoilt))]
    differing = set[str]()
    for name, *scopes in pairs:
        a, b = ({n.name: n for n in scope.body if isinstance(n, DEFINES)} for scope in scopes)
        for scope in scopes:
            scope.body = [node for node in scope.body if not isinstance(node, DEFINES)]
        if a.keys() != b.keys() or ast.dump(scopes[0]) != ast.dump(scopes[1]):
            differing.add("")
        for inner in a.keys() & b.keys():
            whole, both = f"{name}.{inner}".lstrip("."), (a[inner], b[inner])
            if isinstance(both[0], ast.ClassDef):
                pairs.append((whole, *both))
            elif ast.dump(both[0]) != ast.dump(both[1]):
                differing.add(whole if _head(both[0]) == _head(both[1]) else "")
    return differing


def _head(function: Any) -> str:
    """Show what runs where a function is made: decorators, and defaults of its arguments."""
    return ast.dump(function.args) + str([ast.dump(one) for one in function.decorator_list])


class Bench:
    """All cases, by the functions that they run; all modules are imported already."""

    def __init__(self, home: Path, rooms: Sequence[str]) -> None:
        recorded = [room for room in rooms if (home / f"{room}.cases").exists()]
        self.recordings = {one: replaying.load(home / f"{one}.cases") for one in recorded}
        self.names, self.reach = replaying.names(), dict[Place, int]()
        self.of: dict[str, list[Place]] = defaultdict(list)
        for room in recorded:
            for name, each in replaying.load(home / f"{room}.ran").items():
                with contextlib.suppress(ImportError):
                    importlib.import_module(self.names.now(name).partition(":")[0])
                for number, runs in enumerate(each):
                    here = set(map(self.names.now, runs))
                    self.reach[room, name, number] = len(runs)
                    for one in here | {one.partition(":")[0] for one in here}:
                        self.of[one].append((room, name, number))
        replaying.folder()
        gc.collect()
        gc.freeze()

    def places(self, module: str, functions: set[str]) -> list[Place]:
        """List the cases to ask, those that run least first, and of each function in turn."""
        wanted = {place for one in functions if one for place in self.of[f"{module}:{one}"]}
        if "" not in functions:
            return self._in_turn(wanted)
        wanted.update(self.of[module])
        by = (one.name for one in known().values() if known()[module] in of_ours(one))
        near = {place for one in by for place in self.of[one]} - wanted
        return self._in_turn(wanted) + self._in_turn(near)

    def _in_turn(self, places: set[Place]) -> list[Place]:
        by: dict[str, list[Place]] = defaultdict(list)
        for place in sorted(self.reach.keys() & places, key=lambda p: (self.reach[p], p)):
            by[place[1]].append(place)
        return [place for turn in zip_longest(*by.values()) for place in turn if place]

    def ask(self, file: str, spoilt: str) -> Fate:
        """Plant a fault and ask until something differs; for a process of its own."""
        asked, (module, functions) = 0, spoil(file, spoilt)
        for asked, place in enumerate(self.places(module, functions), 1):
            if said := self.answer(place):
                return Fate("cassettes", f"{place[1]} #{place[2]}:{said}"[:300], place)
            if time.process_time() > LONGEST_S:
                return Fate("missed", f"{asked} cases, not all in {LONGEST_S} s")
        return Fate("missed", f"{asked} cases")

    def answer(self, place: Place) -> str:
        """Ask a case; return how its answer differs."""
        room, name, i = place
        try:
            function = self.names.function(name)
            return replaying.asked(function, self.recordings[room][name][i], self.names)
        except Exception as e:  # noqa: BLE001  a module that cannot be imported is noticed
            return f"cannot be imported: {e!r:.100}"


def spoil(file: str, spoilt: str) -> tuple[str, set[str]]:
    """Plant a fault in this process; return its module and the functions that it changes."""
    module = next(one for one in known().values() if one.file == file)
    functions = changed(module.path.read_text("utf-8"), spoilt)
    code = compile(spoilt, str(module.path), "exec", dont_inherit=True)
    if not (module.name in sys.modules and all(_put(code, module.name, f) for f in functions)):
        for name in [*sys.modules]:
            if name.partition(".")[0] in ("harness", "harness_engines"):
                del sys.modules[name]
        honest = SourceFileLoader.get_code

        def get_code(loader: SourceFileLoader, name: str) -> Any:
            return code if name == module.name else honest(loader, name)

        SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]
    return module.name, functions


def _put(code: types.CodeType, module: str, name: str) -> bool:
    """Give a function its code of a spoilt module, where it is one that can be given it."""
    every = [code]
    for one in every:
        every += [inner for inner in one.co_consts if isinstance(inner, types.CodeType)]
    new = [one for one in every if one.co_qualname == name]
    try:
        function = found(f"{module}:{name}")[0]
        was = function.__code__
    except AttributeError:
        return False
    if len(new) != 1 or (was.co_filename, was.co_qualname) != (code.co_filename, name):
        return False
    if was.co_freevars == new[0].co_freevars:
        function.__code__ = new[0]
    return bool(function.__code__ is new[0])


def ask_goldens(home: Path, file: str, spoilt: str) -> Fate:
    """Plant a fault and play the quick scenarios that run its code until something differs."""
    module = next(name for name, one in known().items() if one.file == file)
    functions = changed((ROOT / file).read_text("utf-8"), spoilt)
    wanted = {f"{module}:{one}" for one in functions}
    for scenario in golden.QUICK:
        if not (kept := home / f"golden-{scenario}.ran").exists():
            kept.write_text(played(scenario), "utf-8")
        runs = set(kept.read_text("utf-8").splitlines())
        near = "" in functions and any(one.startswith(f"{module}:") for one in runs)
        if (near or wanted & runs) and (said := played(scenario, file, spoilt)[:300]):
            return Fate("goldens", said)
    return Fate("missed")


def played(*words: str) -> str:
    """Play a golden scenario in a process of its own, and return what it says."""
    command = [sys.executable, "-m", __name__, *words]
    env = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600, check=False
        )
    except subprocess.TimeoutExpired:
        return "has no end"
    return done.stdout or (f"ended with {done.returncode}" if done.returncode else "")


def play(scenario: str, file: str = "", spoilt: str = "") -> str:
    """Play a scenario up to the first difference; without a fault, name the functions it runs."""
    codes = set[types.CodeType]()
    if file:
        spoil(file, spoilt)
    else:
        sys.setprofile(lambda frame, *_: codes.add(frame.f_code))
        threading.setprofile(lambda frame, *_: codes.add(frame.f_code))
    said = next(golden.differences(scenario, golden.outputs(scenario)), "")
    if said and not file:
        raise AssertionError(said)
    sys.setprofile(None)
    called = [one for one in list(codes) if one.co_flags & inspect.CO_OPTIMIZED]  # no class bodies
    ours = [one for one in called if one.co_filename.startswith((f"{ROOT}/h", f"{ROOT}/e"))]
    return said or "\n".join({replaying.named(one, ROOT) for one in ours})


def tried(
    faults: Sequence[Mutant], home: Path, rooms: Sequence[str], *, goldens: bool
) -> Iterator[tuple[Mutant, Fate]]:
    """Try faults one by one; yield what came of each. One that only its tests can see is apart."""
    bench = Bench(home, rooms)
    for one in faults:
        ((file, spoilt),) = plant(one).items()
        fate = Fate("missed", "no code")
        while file.endswith(".py"):
            fate = alone(partial(bench.ask, file, spoilt), home) or Fate("missed", "died")
            if not fate.place or not alone(partial(bench.answer, fate.place), home):
                break
            del bench.reach[fate.place]  # it differs without the fault, too
        if goldens and fate.kind == "missed" and file.endswith(".py"):
            fate = max(fate, ask_goldens(home, file, spoilt), key=lambda one: one.kind == "goldens")
        its = one.survives or any(map(APART.search, one.tests))
        yield one, fate._replace(kind="apart") if its and fate.kind == "missed" else fate


def alone(do: Callable[[], Any], home: Path) -> Any:
    """Do it quietly in a process of its own; return what it gives, or None if it dies."""
    (to := home / "fate").unlink(missing_ok=True)
    if not (pid := os.fork()):
        replaying.guard()
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_S + 60, LONGEST_S + 60))
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        with contextlib.suppress(BaseException):
            to.write_bytes(pickle.dumps(do()))
        os._exit(0)
    os.waitpid(pid, 0)
    return pickle.loads(to.read_bytes()) if to.exists() else None


if __name__ == "__main__":
    sys.stdout.write(play(*sys.argv[1:]))
