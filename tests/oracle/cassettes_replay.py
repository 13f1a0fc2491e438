"""Ask today's functions what the recorded ones were asked, and compare what they give.

Not compared: wording of errors, standard output, logs, order of sets, time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import importlib
import io
import operator
import os
import pickle
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import tomllib
import types
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram

from tests.oracle import cassettes
from tests.oracle.cassettes import (
    CACHED,
    FRESH,
    LINK,
    TMP,
    Case,
    Files,
    Thaw,
    found,
    in_tmp,
    kind_of,
)

HERE = Path(__file__).parent
LONGEST_S, SECONDS = 10, 5
"""What a case may take, and the settling of a function."""
EXACT = (
    *(str, bytes, int, type(None), set, frozenset, enum.Enum, PurePath, type),
    *(types.BuiltinFunctionType, types.MethodType, np.generic),
)
NEAR = 1e-12


class Names(dict[str, str]):
    """Where functions, classes and modules of the kept commit are now; empty if they are gone."""

    def now(self, name: str) -> str:
        """Name where module:qualname is now."""
        module, _, qualname = name.partition(":")
        for old in (name, f"{module}:{qualname.partition('.')[0]}", module):
            if old in self:
                return self[old] and self[old] + name.removeprefix(old)
        return name

    def function(self, name: str) -> Callable[..., Any]:
        """Find the function of today that answers for a recorded one."""
        place, makes, _ = self.now(name).partition(".__init__")
        module, _, kind = place.partition(":")
        if makes:
            return operator.attrgetter(kind)(importlib.import_module(module))  # type: ignore[no-any-return]
        return found(place)[0]  # type: ignore[no-any-return]


def names() -> Names:
    """Read names.toml."""
    return Names(tomllib.loads((HERE / "names.toml").read_text("utf-8")))


def differ(a: Any, b: Any, at: str = "") -> str:
    """Return where and how two values differ first, or nothing."""
    if type(a) is not type(b):
        return f"{at} {a!r:.60} is now {b!r:.60}"
    if isinstance(a, np.ndarray) and (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{at} {a.dtype} {a.shape} is now {b.dtype} {b.shape}"
    if isinstance(a, float | complex | np.inexact):
        return "" if _near(a, b) else f"{at} {a!r:.60} is now {b!r:.60}"
    if isinstance(a, EXACT) and not isinstance(a, tuple):
        return "" if a == b else f"{at} {a!r:.60} is now {b!r:.60}"
    if type(a) in FRESH:
        return ""
    return next((d for name, x, y in _parts(a, b) if (d := differ(x, y, at + name))), "")


def _parts(a: Any, b: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, np.ndarray):
        whole = a.dtype.kind in "fcO"
        yield ("[]", a.tolist(), b.tolist()) if whole else ("[]", a.tobytes(), b.tobytes())
    elif isinstance(a, Mapping):
        yield " keys", list(a), list(b)
        yield from ((f"[{k!r:.40}]", a[k], b[k]) for k in a if k in b)
    elif isinstance(a, list | tuple):
        yield " length", len(a), len(b)
        yield from ((f"[{i}]", *pair) for i, pair in enumerate(zip(a, b, strict=False)))
    elif dataclasses.is_dataclass(a):
        yield from (
            (f".{f.name}", getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a)
        )
    elif isinstance(a, sqlite3.Connection):
        yield " rows", list(a.iterdump()), list(b.iterdump())
    elif isinstance(a, types.FunctionType):
        yield " function", a.__qualname__, b.__qualname__
    elif isinstance(a, CACHED):
        yield " cached", a.__wrapped__, b.__wrapped__
    elif isinstance(a, HdrHistogram):
        yield " histogram", a.encode(), b.encode()
    elif isinstance(a, BaseException):
        yield " error", kind_of(a), kind_of(b)
    else:
        yield " state", a.__reduce_ex__(5)[1:3], b.__reduce_ex__(5)[1:3]


def _near(a: Any, b: Any) -> bool:
    same = a == b or (a != a and b != b)  # noqa: PLR0124  not a number
    return bool(
        same or (np.isfinite(a) and np.isfinite(b) and abs(a - b) <= NEAR * max(abs(a), abs(b)))
    )


class TooLongError(BaseException):
    """A case has not ended in time."""


def _refuse(*_: object) -> None:
    msg = "A recorded case may not signal processes."
    raise PermissionError(msg)


def _stop(*_: object) -> None:
    raise TooLongError


def guard() -> None:
    """Keep recorded cases from signalling processes of this machine; for a process of its own."""
    os.kill = os.killpg = _refuse
    signal.signal(signal.SIGALRM, _stop)


def again(function: Callable[..., Any], case: Case, names: Names) -> str:
    """Ask once more; return how the answer differs, or nothing. Raise what cannot be asked."""
    home, was = Path.cwd(), sys.argv
    with emptied() as tmp:
        lay_out(case.before, tmp)
        lent: list[types.GeneratorType[Any, Any, Any]] = []
        args, kwargs, argv = given = Thaw(case.asked, tmp, names, lent).load()
        moved = case.how == "raised" and (names.now(case.what[0]), *case.what[1:])
        expected = moved or Thaw(case.what, tmp, names).load()
        changed = case.changed and Thaw(case.changed, tmp, names).load()
        try:
            sys.argv = argv or was
            if case.at is not None:
                os.chdir(tmp / case.at)
            got = _answer(function, args, kwargs, str(tmp) if argv else "")
            left = cassettes.files([tmp / rest for rest in case.roots], tmp)
        finally:
            for one in reversed(lent):
                one.close()
            os.chdir(home)
            sys.argv = was
        after = case.before if case.after is None else case.after
        said = differ((case.how, expected), got) or differ(after, left, "files")
        return said or (differ(changed, given, "arguments") if changed else "")


@functools.cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Make one folder for all cases of this process, and of those forked from it."""
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


@contextlib.contextmanager
def emptied() -> Iterator[Path]:
    """Lend one folder for temporary files to case after case, each time empty."""
    tmp = Path(folder().name).resolve() / str(os.getpid())
    tmp.mkdir(exist_ok=True)
    try:
        yield tmp
    finally:
        if any(tmp.iterdir()):
            shutil.rmtree(tmp, ignore_errors=True)


def _answer(function: Callable[..., Any], args: Any, kwargs: Any, tmp: str) -> tuple[str, Any]:
    random.seed(0)
    silent, said = io.StringIO(), io.StringIO()
    signal.alarm(LONGEST_S)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(silent):
            it = function(*args, **kwargs)
            return "gave", list(it) if isinstance(it, types.GeneratorType) else it
    except (Exception, SystemExit) as e:  # noqa: BLE001  whatever it is, it is the answer
        return "raised", (*kind_of(e), said.getvalue().replace(tmp, TMP) if tmp else "")
    except TooLongError:
        return "raised", ("no answer in time", None, "")
    finally:
        signal.alarm(0)


def lay_out(before: Files, tmp: Path) -> None:
    """Write the files of a case again."""
    for rest, content in before.items():
        (tmp / rest).parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            (tmp / rest).mkdir(exist_ok=True)
        elif content.startswith(LINK):
            (tmp / rest).symlink_to(in_tmp(content, tmp).removeprefix(LINK).decode())
        else:
            (tmp / rest).write_bytes(in_tmp(content, tmp))


Recording = dict[str, list[Case]]
Ran = dict[str, list[set[str]]]


def load(path: Path) -> Any:
    """Read what a recording wrote."""
    sys.modules.setdefault("cassettes", cassettes)
    return pickle.loads(zlib.decompress(path.read_bytes()))


def asked(function: Callable[..., Any], case: Case, names: Names) -> str:
    """Ask again; what cannot be asked is a difference too."""
    try:
        return again(function, case, names)
    except Exception as e:  # noqa: BLE001  counted, and shown
        return f"cannot be asked: {e!r:.100}"


def replay(room: str, recording: Recording, names: Names, most: int = 5) -> Counter[str]:
    """Replay a room and print what differs; return counts."""
    counts = Counter[str]()
    for name, cases in recording.items():
        if not names.now(name):
            counts["gone"] += 1
            continue
        counts["functions"] += 1
        try:
            function = names.function(name)
        except (ImportError, AttributeError) as e:
            print(f"{room} {name}: not found ({e!r:.80}). Name its place in {HERE / 'names.toml'}.")
            counts["not found"] += 1
            continue
        said = [d for case in cases if (d := asked(function, case, names))]
        counts.update({"cases": len(cases), "differences": len(said)})
        for difference in said[:most]:
            print(f"{room} {name}, {len(said)} of {len(cases)} cases:{difference}")
    return counts


def settle(recording: Recording, root: Path) -> tuple[Recording, Ran, Counter[str]]:
    """Leave out what does not come again, and find what each case runs, by function and case."""
    counts, kept, ran, names = Counter[str](), Recording(), Ran(), Names()
    ours = f"{root}/harness/", f"{root}/engines/"
    for name, cases in recording.items():
        try:
            function = names.function(name)
        except (ImportError, AttributeError):
            counts["functions not found"] += 1
            continue
        began, kept[name], ran[name] = time.process_time(), [], []
        for case in cases:
            codes = set[types.CodeType]()
            if time.process_time() > began + SECONDS:
                counts["cases too late"] += 1
                continue
            sys.setprofile(lambda frame, *_, codes=codes: codes.add(frame.f_code))
            said = asked(function, case, names)
            sys.setprofile(None)
            if said:
                counts["cases left out"] += 1
                continue
            kept[name].append(case)
            ran[name].append({named(c, root) for c in codes if c.co_filename.startswith(ours)})
        counts.update({"functions": bool(kept[name]), "cases": len(kept[name])})
    return kept, ran, counts


def named(code: types.CodeType, root: Path) -> str:
    """Name a function of the product by its code."""
    file = str(Path(code.co_filename).relative_to(root)).removeprefix("engines/")
    parts = Path(file).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return f"{module}:{code.co_qualname.partition('.<locals>')[0]}"
