"""Record what public functions gave while the tests ran: a plugin of pytest, in the kept commit.

It runs beside the code of another commit, so it imports nothing of the project. The code of a
function is replaced in place: tables, partials and earlier imports all see the recorder.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import inspect
import io
import itertools
import os
import pickle
import pkgutil
import queue
import sqlite3
import sys
import threading
import time
import types
import weakref
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import cloudpickle  # type: ignore[import-untyped]
from hdrh.histogram import HdrHistogram

RAW = 120
"""Cases of a function that a recording keeps."""
A_TEST, SECONDS = 10, 3.0
"""Calls of a function that are looked at in a test, and what looking at all of them may cost."""
BYTES, TREE_BYTES, ALL_BYTES = 1_000_000, 2_000_000, 12_000_000
"""Sizes of a value, of all files of a case, and of all cases of a function."""
TMP = "\x00tmp\x00"
"""Stands for the folder of temporary files in recorded text."""
PROGRAM = "harness.cli:main"
"""Reads its arguments from ``sys.argv``, and works on the folder that it is called in."""
SPECIAL = (
    "__init__",
    "__post_init__",
    "__call__",
    "__iter__",
    "__contains__",
    "__getitem__",
    "__len__",
)
PROJECT = Path.cwd()
"""Of the kept commit, while it is recorded."""
METHODS = (classmethod, staticmethod, property, cached_property, types.FunctionType)
LINK = b"\x00link\x00"
"""Begins what stands for a link, before its target."""
Files = dict[str, bytes | None]
"""Contents by path below the folder of temporary files; None is a folder."""


class NotPlainError(Exception):
    """A value cannot be kept; the message is the reason, to be counted."""


class Case(NamedTuple):
    """Hold one call: arguments, the files they name, the working folder; and what came of it."""

    asked: bytes
    roots: tuple[str, ...]
    before: Files
    at: str | None
    how: str
    what: Any
    changed: bytes | None
    after: Files | None


def made(kind: Any, values: Mapping[str, object]) -> object:
    """Make a data class from its fields alone; what has a default today may be new."""
    it: object = object.__new__(kind)
    for f in dataclasses.fields(kind):
        if f.default is not dataclasses.MISSING:
            values = {f.name: f.default, **values}
        elif f.default_factory is not dataclasses.MISSING:
            values = {f.name: f.default_factory(), **values}
        if f.name in values:
            object.__setattr__(it, f.name, values[f.name])
    return it


def proxy(of: dict[Any, Any]) -> types.MappingProxyType[Any, Any]:
    """Make a read-only mapping."""
    return types.MappingProxyType(of)


def at_tmp(rest: str) -> Path:
    """Stand for a path below the folder of temporary files; ``Thaw`` has its own."""
    raise NotImplementedError(rest)


def at_root(rest: str) -> Path:
    """Name a path of the project, whose folder is the working one before a case begins."""
    return Path.cwd() / rest


def of_sqlite(content: bytes) -> sqlite3.Connection:
    """Open a database from its content, in memory."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.deserialize(content[:18] + b"\1\1" + content[20:])  # no journal of its own
    return connection


FRESH: dict[type, Any] = {
    type(threading.Lock()): threading.Lock,
    type(threading.RLock()): threading.RLock,
    queue.SimpleQueue: queue.SimpleQueue,
}
"""What is made anew, and compared by its type alone."""
CACHED = type(functools.cache(len))
MADE: dict[type, Any] = {
    **{kind: lambda it: (FRESH[type(it)], ()) for kind in FRESH},
    sqlite3.Connection: lambda it: (of_sqlite, (it.serialize(),)),
    types.MappingProxyType: lambda it: (proxy, (dict(it),)),
    HdrHistogram: lambda it: (HdrHistogram.decode, (it.encode(),)),
    CACHED: lambda it: (
        str(it.__qualname__)
        if hasattr(it, "__qualname__")
        else (functools.cache, (it.__wrapped__,))
    ),
}
"""How things are pickled that have no way of their own, or another one than ours."""


class Freeze(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickle plain values; paths below ``tmp`` are kept relative to it, and listed."""

    def __init__(self, to: io.BytesIO, tmp: Path, cwd: Path | None) -> None:
        super().__init__(to, 5)
        self.tmp, self.cwd, self.whole, self.paths = tmp, cwd, False, list[Path]()

    def reducer_override(self, it: Any) -> Any:
        if isinstance(it, PurePath):
            return self._path(it)
        if isinstance(it, Iterator):
            raise NotPlainError("iterator")
        if make := MADE.get(kind := type(it)):
            return make(it)
        if dataclasses.is_dataclass(kind) and not _reduces_itself(kind):
            there = (f.name for f in dataclasses.fields(kind) if hasattr(it, f.name))
            return made, (kind, {name: getattr(it, name) for name in there})
        return super().reducer_override(it)

    def _path(self, it: PurePath) -> Any:
        if not it.is_absolute():
            self.paths += [self.cwd / it] if self.cwd else []
            return NotImplemented
        if it.is_relative_to(PROJECT):
            return at_root, (str(it.relative_to(PROJECT)),)
        if not it.is_relative_to(self.tmp):
            raise NotPlainError("path outside tmp")
        self.paths.append(Path(it))
        return at_tmp, (str(it.relative_to(self.tmp)),)


class FreezeBorn(Freeze):
    """Pickle as ``Freeze`` does, slower: replace ``tmp`` in text, and name how a thing was made."""

    def persistent_id(self, it: Any) -> Any:
        text, tmp = type(it) is str, str(self.tmp)
        if text or type(it) is bytes:
            was, stands = (tmp, TMP) if text else (tmp.encode(), TMP.encode())
            return it.replace(was, stands) if was in it else None
        born = BORN.get(id(it))
        if self.whole or not born or born[0]() is not it:
            return None
        self.paths += [self.tmp / rest for rest in born[2].roots]
        return born[1], born[2].asked


BORN: dict[int, tuple[Any, str, Case]] = {}
"""Things that are not plain, and the call that made each."""


class Thaw(pickle.Unpickler):
    """Read values back; ``names`` knows where a class or function is now."""

    def __init__(self, blob: bytes, tmp: Path, names: Any, lent: Any = None) -> None:
        super().__init__(io.BytesIO(blob))
        self.tmp, self.names, self.lent = tmp, names, [] if lent is None else lent

    def persistent_load(self, it: Any) -> Any:
        if isinstance(it, tuple):
            args, kwargs, _ = Thaw(it[1], self.tmp, self.names, self.lent).load()
            thing = self.names.function(it[0])(*args, **kwargs)
            if isinstance(thing, types.GeneratorType):
                self.lent.append(thing)
                return next(thing)
            return thing
        return in_tmp(it, self.tmp) if type(it) is bytes else it.replace(TMP, str(self.tmp))

    def find_class(self, module: str, name: str) -> Any:
        if module in ("cassettes", __name__):
            return self.tmp.joinpath if name == "at_tmp" else globals()[name]
        module, _, name = self.names.now(f"{module}:{name}").partition(":")
        return super().find_class(module, name)


def in_tmp(content: bytes, tmp: Path) -> bytes:
    """Name a folder of temporary files where a recorded content stands for one."""
    return content.replace(TMP.encode(), str(tmp).encode())


def _reduces_itself(kind: Any) -> bool:
    own = ("__reduce_ex__", "__reduce__", "__new__")
    state = ("object.__getstate__", "_dataclass_getstate")
    same = all(getattr(kind, name) is getattr(object, name) for name in own)
    return not same or kind.__getstate__.__qualname__ not in state


def freeze(
    it: object, tmp: Path, cwd: Path | None = None, *, whole: bool = False
) -> tuple[bytes, list[Path]]:
    """Pickle a value, and list the paths in it; raise ``NotPlainError`` where it is not plain."""
    why = "text that names tmp"
    for kind in (Freeze, FreezeBorn):
        pickler = kind(to := io.BytesIO(), tmp, cwd)
        pickler.whole = whole
        try:
            pickler.dump(it)
        except NotPlainError as e:
            why = str(e)
            continue
        except Exception as e:  # noqa: BLE001  whatever a pickle cannot take
            why = f"no pickle: {str(e)[:60]}"
            continue
        if len(to.getvalue()) > BYTES:
            raise NotPlainError("too large")
        if str(tmp).encode() not in to.getvalue():
            return to.getvalue(), pickler.paths
    raise NotPlainError(why)


def files(paths: Sequence[Path], tmp: Path) -> Files:
    """Read what lies at these paths, around them as folders, and below them."""
    every, size = dict[Path, bytes | None](), 0
    try:
        for path in paths:
            if not path.is_relative_to(tmp) or path == tmp:
                raise NotPlainError("files outside tmp")
            around = [path.parent] if path.parent != tmp else []
            for one in (*around, path, *(path.rglob("*") if path.is_dir() else ())):
                if one not in every and one.is_symlink():
                    every[one] = LINK + str(one.readlink()).encode()
                elif one not in every and one.exists():
                    size += 500 + (one.stat().st_size if one.is_file() else 0)
                    if size > TREE_BYTES:
                        raise NotPlainError("large files")
                    every[one] = one.read_bytes() if one.is_file() else None
    except OSError as e:
        raise NotPlainError(f"no file: {type(e).__name__}") from e
    was, stands = str(tmp).encode(), TMP.encode()
    return {str(p.relative_to(tmp)): b and b.replace(was, stands) for p, b in sorted(every.items())}


def kind_of(e: BaseException) -> tuple[str, Any]:
    """Name the type of an error, and its exit code."""
    code = getattr(e, "code", getattr(e, "exit_code", None))
    return f"{type(e).__module__}:{type(e).__qualname__}", code if isinstance(code, int) else None


def found(name: str) -> tuple[Any, bool]:
    """Find the function behind module:qualname, and whether its generator may be watched."""
    it: Any = importlib.import_module(name.partition(":")[0])
    for part in name.partition(":")[2].split("."):
        it = inspect.getattr_static(it, part)
    for inner in ("__func__", "fget", "func"):
        it = getattr(it, inner, None) or it
    return inspect.unwrap(it), inspect.unwrap(it) is it


class Seam:
    """Stand for one function: its code becomes a call of this."""

    def __init__(self, name: str, tmp: Path) -> None:
        self.name, self.tmp, self.calls, self.spent = name, tmp, 0, 0.0
        self.test, self.here = 0, 0
        self.cases, self.seen, self.reasons = dict[bytes, Case](), set[bytes](), Counter[str]()
        f, self.watch = found(name)
        self.was = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__)
        self.was.__kwdefaults__ = f.__kwdefaults__
        f.__signature__ = inspect.signature(f)
        code = (lambda *a, **k: ("the seam", a, k)[0](*a, **k)).__code__  # type: ignore[operator]
        consts = tuple(self if c == "the seam" else c for c in code.co_consts)
        f.__code__ = code.replace(co_consts=consts)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        self.here = self.here + 1 if self.test == TESTS[0] else 1
        self.test = TESTS[0]
        if self.here > A_TEST or self.spent > SECONDS:
            return self.was(*args, **kwargs)
        makes = self.name.endswith(".__init__")
        given = (args[makes:], kwargs, sys.argv if self.name == PROGRAM else None)
        began = time.perf_counter()
        key, case = self._begun(given)
        self.spent += time.perf_counter() - began
        if not case:
            return self.was(*args, **kwargs)
        heard = Heard(sys.stdout)
        try:
            with contextlib.redirect_stdout(heard) if given[2] else contextlib.nullcontext():
                it = self.was(*args, **kwargs)
        except (Exception, SystemExit) as e:
            said = heard.getvalue().replace(str(self.tmp), TMP)
            self._keep(key, case, given, "raised", (*kind_of(e), said))
            raise
        if isinstance(it, types.GeneratorType):
            if not self.watch:
                return Lent(it, lambda thing: self._keep(key, case, given, "gave", [thing]))
            return self._passed_on(it, key, case, given)
        self._keep(key, case, given, "gave", args[0] if makes else it)
        return it

    def _begun(self, given: Any) -> tuple[bytes, Case | None]:
        try:
            cwd = _below(self.tmp)
            asked, paths = freeze(given, self.tmp, cwd)
            paths += [cwd] if cwd and self.name == PROGRAM else []
            before = files(paths, self.tmp)
        except NotPlainError as e:
            self.reasons[f"argument: {e}"] += 1
            return b"", None
        key = hashlib.sha256(asked + repr((before, cwd)).encode()).digest()
        if key in self.seen:
            return key, None
        self.seen.add(key)
        at = str(cwd.relative_to(self.tmp)) if cwd else None
        roots = tuple(str(path.relative_to(self.tmp)) for path in paths)
        return key, Case(asked, roots, before, at, "", None, None, None)

    def _passed_on(self, items: Iterator[Any], key: bytes, case: Case, given: Any) -> Iterator[Any]:
        got = []
        try:
            for item in items:
                got.append(item)
                yield item
        except Exception as e:
            self._keep(key, case, given, "raised", (*kind_of(e), ""))
            raise
        self._keep(key, case, given, "gave", got)

    def _keep(self, key: bytes, case: Case, given: Any, how: str, it: object) -> None:
        began = time.perf_counter()
        try:
            after = files([self.tmp / rest for rest in case.roots], self.tmp)
            what = freeze(it, self.tmp, whole=True)[0] if how == "gave" else it
            now = case.asked
            with contextlib.suppress(NotPlainError):
                now = freeze(given, self.tmp)[0]
            changed = None if now == case.asked else now
            left = None if after == case.before else after
            self.cases[key] = case._replace(how=how, what=what, changed=changed, after=left)
        except NotPlainError as e:
            self.reasons[f"result: {e}"] += 1
            self.seen.discard(key)
            thing = it[0] if isinstance(it, list) and len(it) == 1 and not self.watch else it
            with contextlib.suppress(TypeError):
                BORN[id(thing)] = weakref.ref(thing), self.name, case
        if len(self.cases) >= 4 * RAW:
            few = set(map(id, self.chosen()))
            self.cases = {k: c for k, c in self.cases.items() if id(c) in few}
        self.spent += time.perf_counter() - began

    def chosen(self) -> list[Case]:
        """Choose of each result the smallest first; then half small ones, half of all sizes."""
        by: dict[object, list[Case]] = defaultdict(list)
        for case in sorted(self.cases.values(), key=lambda c: (len(c.asked), c.asked)):
            by[case.what].append(case)
        turns = [c for turn in itertools.zip_longest(*by.values()) for c in turn if c]
        half, rest = turns[: RAW // 2], turns[RAW // 2 :]
        step = max(1.0, len(rest) / (RAW - RAW // 2))
        half += [rest[int(i * step)] for i in range(min(len(rest), RAW - RAW // 2))]
        sizes = itertools.accumulate(
            len(c.asked) + 2 * sum(map(_size, c.before.items())) for c in half
        )
        return [case for case, size in zip(half, sizes, strict=True) if size < ALL_BYTES]


class Heard(io.StringIO):
    """Pass text on, and keep it."""

    def __init__(self, on: Any) -> None:
        super().__init__()
        self.on = on

    def write(self, text: str) -> int:
        self.on.write(text)
        return super().write(text)


class Lent:
    """Stand for the generator of a context manager, and note what it lends."""

    def __init__(self, items: Iterator[Any], note: Any) -> None:
        self.items, self.note = items, note
        self.throw, self.close = items.throw, items.close  # type: ignore[attr-defined]

    def __next__(self) -> Any:
        thing = next(self.items)
        self.note(thing)
        return thing


def _size(file: tuple[str, bytes | None]) -> int:
    return len(file[0]) + len(file[1] or b"")


def _below(tmp: Path) -> Path | None:
    """Name the working folder, where it is a temporary one."""
    with contextlib.suppress(OSError):
        cwd = Path.cwd()
        return cwd if cwd.is_relative_to(tmp) and cwd != tmp else None
    return None


def seams(packages: Sequence[str]) -> Iterator[str]:
    """Yield the names of public functions and methods of packages that can be imported."""
    for package in packages:
        path = getattr(importlib.import_module(package), "__path__", ())
        below = pkgutil.walk_packages(path, f"{package}.", lambda _: None)
        for name in [package, *(one.name for one in below)]:
            with contextlib.suppress(Exception):  # what an extra that is not there leaves out
                for inside, it in vars(importlib.import_module(name)).items():
                    if getattr(it, "__module__", None) == name and not inside.startswith("_"):
                        methods = vars(it).items() if isinstance(it, type) else ()
                        yield from (f"{name}:{inside}.{m}" for m, f in methods if _is_public(m, f))
                        if isinstance(it, types.FunctionType):
                            yield f"{name}:{inside}"


def _is_public(name: str, method: object) -> bool:
    code = getattr(method, "__code__", None)
    written = not code or code.co_filename != "<string>"  # not by ``dataclass``
    wanted = not name.startswith("_") or name in SPECIAL
    return isinstance(method, METHODS) and written and wanted


SEAMS: list[Seam] = []
TESTS = [0]
"""How many tests have begun."""


def pytest_runtest_setup() -> None:
    """Look at each function anew in each test."""
    TESTS[0] += 1


def pytest_collection_finish(session: Any) -> None:
    """Put the recorder into each function of ``ORACLE_PACKAGES``."""
    tmp = session.config._tmp_path_factory.getbasetemp()  # noqa: SLF001  there is no other way
    known = set[int]()
    for name in seams(os.environ["ORACLE_PACKAGES"].split()):
        it, _ = found(name)
        if isinstance(it, types.FunctionType) and not it.__code__.co_freevars:
            if id(it) not in known:
                SEAMS.append(Seam(name, tmp))
            known.add(id(it))


def pytest_sessionfinish() -> None:
    """Write the cases, and how many calls were not kept and why."""
    to = Path(os.environ["ORACLE_TO"])
    write(to, {seam.name: seam.chosen() for seam in SEAMS if seam.cases})
    with to.with_suffix(".txt").open("w") as lines:
        for seam in SEAMS:
            why = "; ".join(f"{n} {r}" for r, n in seam.reasons.most_common(3))
            print(f"{seam.name}: {seam.calls} calls, {len(seam.cases)} kept; {why}", file=lines)


def write(to: Path, what: object) -> None:
    """Write a recording whole, or not at all."""
    part = to.with_suffix(".part")
    part.write_bytes(zlib.compress(pickle.dumps(what, 5), 3))
    part.replace(to)
