"""Exit codes, signals and the program's name in messages."""

import errno
import json
import os
import re
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import cache
from io import TextIOWrapper
from pathlib import Path
from shutil import which
from types import FrameType

from harness.core.errors import MEMORY_RAN_OUT, BadFile, HarnessError

CALLED = "HARNESS_CALLED"
"""Variable that ``run.py`` sets: how a person called it, such as ``python3 run.py``."""
COMMAND = "harness"
INSTALLS = re.compile(r"(?<![\w./-])(?<!-m )(?<!run\.py )pip install(?= [\w\"-])")
IN_A_CLONE = re.compile(r"python3 run\.py (?:harness )?")
_NAMES: set[str] = set()
"""Commands of the application."""


def called() -> str:
    """Return the command line of the harness as it was called, without options."""
    by = os.environ.get(CALLED, "")
    return f"{by} {COMMAND}" if by else shlex.join(_typed())


def called_from_anywhere() -> str:
    """Return the same for another folder: paths are absolute."""
    python, _, script = os.environ.get(CALLED, "").partition(" ")
    if script:
        return f"{python} {shlex.quote(str(Path(script).resolve()))} {COMMAND}"
    program, *options = _typed()
    whole = str(Path(program).absolute()) if os.sep in program else program
    return shlex.join([whole, *options])


def _typed() -> list[str]:
    """Return the words that start this environment's harness where the reader stands."""
    own, on_path = Path(sys.executable).with_name(COMMAND), which(COMMAND)
    if on_path is not None and Path(on_path).absolute() == own:
        return [COMMAND]
    if sys.orig_argv[1:3] == ["-m", COMMAND]:
        return [sys.orig_argv[0], "-m", COMMAND]
    if Path(sys.argv[0]).name == COMMAND:
        return [sys.argv[0]]
    return [COMMAND]


def as_called(text: str) -> str:
    """Rewrite each command of the harness in a text.

    A noun is left alone: "what a ``harness run`` left".
    """

    def pip(_: re.Match[str]) -> str:
        if by := os.environ.get(CALLED, ""):
            return f"{by} pip install"
        if _typed() == [COMMAND]:
            return "pip install"
        return shlex.join([sys.executable, "-m", "pip", "install"])

    plain = IN_A_CLONE.sub(f"{COMMAND} ", text)
    named = _commands(frozenset(_NAMES)).sub(lambda _: called(), plain)
    return INSTALLS.sub(pip, named)


def introduce(names: Iterable[str]) -> None:
    """Describe which words are commands: the application does so when it is put together."""
    _NAMES.update(names)


@cache
def _commands(names: frozenset[str]) -> re.Pattern[str]:
    """Match the program's name before one of ``names``; a noun is left alone."""
    either = "|".join(map(re.escape, sorted(names))) or "(?!)"
    noun = r"(?<!\ba )(?<!\ba `)(?<!\bthe )(?<!\bthe `)(?<!run\.py )(?<!-m )"
    return re.compile(rf"{noun}(?<![\w./-]){COMMAND}(?= (?:{either})\b)")


ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def deafen() -> None:
    """Ignore further signals: the command is ending."""
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)


@contextmanager
def terminable() -> Iterator[None]:
    """Make SIGTERM and SIGHUP end a command as Ctrl-C does: half-written files are removed.

    Signals ignored at the start (``nohup``) stay ignored; during shutdown all are ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    process = os.getpid()

    def interrupt(number: int, _: FrameType | None) -> None:
        if os.getpid() == process:
            deafen()
            raise KeyboardInterrupt
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    before = {number: signal.getsignal(number) for number in ENDING}
    for number in ENDING:
        if number != signal.SIGINT and before[number] is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        if not all(signal.getsignal(number) is signal.SIG_IGN for number in ENDING):
            for number in ENDING:
                signal.signal(number, before[number])


DONE, FAILED, INTERRUPTED, PIPED = 0, 2, 130, 141
"""The last is what a shell reports of a program whose reader has left."""
DEBUG, JSON = "--debug", "--json"
WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""Where the name of an exception becomes a code: BadFile is bad_file."""
AGAIN = "interrupted; rerun to resume"
REFUSED = "Check that it is there, that it is a regular file, and that you may read and write it"
LONGEST, LONGEST_TOLD = 300, 1_500
"""Characters of a failure that was not foreseen, and of one that was, with its remedy."""


def ended(command: Callable[[], object]) -> int:
    """Run the command line to its end and return the exit code; nothing leaves but this code."""
    debug = DEBUG in sys.argv
    _settle_streams()
    with terminable():
        try:
            command()
            code = DONE
        except SystemExit as left:
            own = _meant(left) is left and (left.code is None or isinstance(left.code, int))
            code = int(left.code or DONE) if own else failed(left, debug=debug)
        except BaseException as exc:  # noqa: BLE001  whatever it is, it is no verdict
            code = failed(exc, debug=debug)
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except (OSError, ValueError, AttributeError) as exc:
            code = code if code in {FAILED, PIPED} else failed(exc, debug=debug)
            with suppress(OSError, ValueError, AttributeError):  # Python tries again at its end
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def failed(exc: BaseException, *, debug: bool) -> int:
    """Print in one line on the error stream what went wrong, and return the exit code.

    A reader that has left ends a program in silence, as it does any other in a pipe.
    """
    try:
        exc = _meant(exc)
        if _broken_pipe(exc):
            return PIPED
        if _interrupt(exc):
            deafen()
        text, code = (AGAIN, INTERRUPTED) if _interrupt(exc) else (as_called(_said(exc)), FAILED)
    except BaseException:  # noqa: BLE001  better words are not to be had, as without a package
        text, code = f"error: {type(exc).__name__}: {exc}", FAILED
    with suppress(OSError, ValueError, AttributeError, MemoryError):
        if debug:
            traceback.print_exception(exc)
        told_as_json(exc, text)
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    return code


def told_as_json(exc: BaseException, text: str) -> None:
    """Print an error for programs, where ``--json`` is given: its code, message and remedy."""
    if JSON not in sys.argv or getattr(exc, "is_told", False):
        return
    kind = type(exc).__name__
    code = "interrupted" if _interrupt(exc) else WORDS.sub("_", kind).lower()
    message, _, remedy = text.removeprefix("error: ").partition(". ")
    said = {"code": code, "message": message.rstrip("."), "remedy": remedy}
    sys.stdout.write(f"{json.dumps({'error': said})}\n")


@contextmanager
def aside() -> Iterator[None]:
    """Send what engines print to the error stream, so that the output is the answer alone.

    That of programs and libraries that they call goes there too, where the output is that of the
    process.
    """
    if sys.stdout is not None:
        sys.stdout.flush()
    kept = None
    with suppress(OSError, ValueError, AttributeError):
        kept = os.dup(1) if sys.stdout.fileno() == 1 else None
    try:
        if kept is not None:
            os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def _meant(exc: BaseException) -> BaseException:
    """Return what an exit stands for: libraries exit by 1 at a broken pipe or an end of input."""
    cause = exc.__context__
    if isinstance(exc, SystemExit) and cause and (_interrupt(cause) or _broken_pipe(cause)):
        return cause
    return exc


def _said(exc: BaseException) -> str:
    """Write an error as it is: ours with its remedy, a file's with its name, any other by kind."""
    from harness.core.errors import hint
    from harness.core.files import REMEDIES, refusal
    from harness.core.printable import between, one_line
    from harness.core.reading import Malformed

    if isinstance(exc, Malformed) and exc.path:
        exc = exc.told()
    if isinstance(exc, MemoryError):
        return f"error: {MEMORY_RAN_OUT}"
    if isinstance(exc, OSError) and exc.filename is not None:
        remedy = REMEDIES.get(exc.errno or 0, REFUSED)
        exc = BadFile(str(exc.filename), f"it cannot be used ({exc.strerror})", remedy)
    elif not isinstance(exc, HarnessError) and (refused := refusal(exc)):
        remedy = REMEDIES.get(refused.errno or 0, REFUSED)
        exc = HarnessError(f"a disk refused a file ({refused.strerror}){_place(exc)}. {remedy}")
    if isinstance(exc, HarnessError):
        return f"error: {between(one_line(str(exc)), LONGEST_TOLD)}"
    if isinstance(exc, ModuleNotFoundError) and (missing := hint(exc)):
        return f"error: {missing}"
    what = one_line(f"{type(exc).__name__}: {exc}", LONGEST)
    return f"error: {what}{_place(exc)}. {DEBUG} shows the traceback"


def _place(exc: BaseException) -> str:
    """Name the line where it was raised; of a file that is no Python, that line."""
    if isinstance(exc, SyntaxError) and exc.filename:
        return f" ({Path(exc.filename).name}:{exc.lineno})"
    frames = traceback.extract_tb(exc.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def _interrupt(exc: BaseException) -> bool:
    """Recognise a Ctrl-C, and the end of an input that Typer was reading, by its name."""
    return isinstance(exc, KeyboardInterrupt) or type(exc).__name__ == "Abort"


def _broken_pipe(exc: BaseException) -> bool:
    return isinstance(exc, OSError) and exc.errno == errno.EPIPE


def _settle_streams() -> None:
    """Open what a shell closed of input, output and errors, and escape what an encoding lacks."""
    for number in range(3):  # else a file of ours gets the number, and what a library prints
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.errors == "strict":
        with suppress(ValueError):
            sys.stdout.reconfigure(errors="backslashreplace")
