"""Untrusted files, read within bounds on size and cost.

* ``numbered``: a file of lines, packed or not, each with its number; JSON lines, TREC and tables.
* ``raw_lines``: the same as bytes, for logs of any encoding.
* ``text_of``: a whole text; ``harness.core.formats`` makes JSON, TOML and YAML of it.
* ``whole``, ``opened``: bytes, for whoever reads those; ``whole_below`` where a folder was listed.

Only regular files are read: a pipe or a device may have no end. Text is UTF-8, and what it is
instead is named. Refused are lines and files beyond a size, and what unpacks to many times its own.
"""

import codecs
import errno
import gzip
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import IO

from harness.core.errors import PROBLEM, BadFile
from harness.core.printable import between

MAX_LINE_BYTES = 16 << 20
MAX_FILE_BYTES = 64 << 20
MAX_UNPACKED = 200
"""Times its own size that a packed file may have; text has five to twenty."""
UNPACKED_ANYWAY = 64 << 20
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""How a file is opened: a pipe without a writer is not waited for."""
BLOCK = 512
BYTE_ORDER_MARK = "\ufeff"
_WIDE = {codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32",
         codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16"}  # fmt: skip
_MARKS = tuple(_WIDE)


class Malformed(ValueError):
    """A file or text is not what it should be; ``line`` is that of its first fault, where known."""

    path: Path | None = None

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(between(problem, PROBLEM))
        self.line = line

    def told(self) -> BadFile:
        """Return the same as a ``BadFile``, for callers without a message of their own."""
        return BadFile(self.path or "a file", str(self), "Rebuild or restore it.", self.line)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name this file in errors of what is malformed or cannot be read."""
    try:
        yield
    except Malformed as exc:
        exc.path = path
        raise
    except OSError as exc:
        exc.filename = exc.filename or str(path)
        raise


def opened(path: Path) -> IO[bytes]:
    """Open a regular file to read its bytes."""
    return _regular(os.open(path, READ), path)


def whole(path: Path, *, most: int = MAX_FILE_BYTES) -> bytes:
    """Read a file of at most ``most`` bytes."""
    with naming(path), opened(path) as file:
        return _bounded(file, most)


def whole_below(folder: Path, path: PurePath, *, most: int = MAX_FILE_BYTES) -> bytes:
    """Read a file that a listing of ``folder`` named; no link below the folder is followed."""
    above = os.open(folder, READ | os.O_DIRECTORY)
    try:
        for part in path.parts[:-1]:
            below = os.open(part, READ | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
            above = below
        number = os.open(path.name, READ | os.O_NOFOLLOW, dir_fd=above)
    finally:
        os.close(above)
    with naming(folder / path), _regular(number, folder / path) as file:
        return _bounded(file, most)


def text_of(path: Path, *, most: int = MAX_FILE_BYTES) -> str:
    """Read a text in UTF-8."""
    with naming(path):
        return _text(whole(path, most=most)).removeprefix(BYTE_ORDER_MARK)


def numbered(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line number (from 1) and text of each line that is not blank; ``.gz`` is unpacked."""
    for number, raw in raw_lines(path):
        try:
            line = _decoded(raw).rstrip("\r\n")
        except UnicodeDecodeError as exc:
            hint = "Convert the file, for example: iconv -f latin1 -t utf-8."
            raise BadFile(path, _not_utf_8(exc.object, exc.start), hint, number) from exc
        except Malformed as exc:
            raise BadFile(path, str(exc), "Give another file.", number) from exc
        line = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        if line.strip():
            yield number, line


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield line number (from 1) and bytes of each line with its end, whatever its encoding."""
    number = read = 0
    with _as_bad_file(path), opened(path) as file:
        size, packed = os.fstat(file.fileno()).st_size, path.suffix == ".gz"
        most = max(UNPACKED_ANYWAY, MAX_UNPACKED * size)
        source = gzip.GzipFile(fileobj=file) if packed else file
        while raw := source.readline(MAX_LINE_BYTES + 1):
            number, read = number + 1, read + len(raw)
            if len(raw) > MAX_LINE_BYTES:
                raise Malformed(f"the line has more than {MAX_LINE_BYTES} bytes", number)
            if packed and read > most:
                raise Malformed(f"it has {size} bytes and unpacks to more than {most}", number)
            yield number, raw


@contextmanager
def _as_bad_file(path: Path) -> Iterator[None]:
    """Name the file, the line and the remedy where lines cannot be read."""
    try:
        yield
    except FileNotFoundError as exc:
        raise BadFile(path, "missing file", "Check the path.") from exc
    except (EOFError, gzip.BadGzipFile, zlib.error) as exc:
        raise BadFile(path, f"the archive is broken ({exc})", "Fetch or pack it again.") from exc
    except OSError as exc:
        raise BadFile(path, f"it cannot be read ({exc.strerror})", "Check the path.") from exc
    except Malformed as exc:
        raise BadFile(path, str(exc), "Give another file.", exc.line) from exc


def _regular(number: int, path: Path) -> IO[bytes]:
    """Return the file that was opened, if it may be read."""
    if problem := _problem(number):
        os.close(number)
        with naming(path):
            raise Malformed(problem)
    return os.fdopen(number, "rb")


def _bounded(file: IO[bytes], most: int) -> bytes:
    content = file.read(most + 1)
    if len(content) > most:
        raise Malformed(f"it has more than {most} bytes")
    return content


def _problem(file: int) -> str:
    """Describe why an open file is not read; empty where nothing is wrong."""
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe"}
        return f"it is {kinds.get(stat.S_IFMT(about.st_mode), 'a device')}, and no regular file"
    held = about.st_blocks * BLOCK
    if about.st_size > max(UNPACKED_ANYWAY, MAX_UNPACKED * held) and (held or _is_hole(file)):
        return f"it has {about.st_size} bytes, of which the disk holds {held}"
    return ""


def _is_hole(file: int) -> bool:
    """Return whether a file has no data at all; a file system that knows no holes says no."""
    try:
        os.lseek(file, 0, os.SEEK_DATA)
    except OSError as exc:
        return exc.errno == errno.ENXIO
    os.lseek(file, 0, os.SEEK_SET)
    return False


def not_text(raw: bytes) -> str:
    """Describe what a file is whose first bytes are not text in UTF-8; empty where they may be."""
    if raw.startswith(_MARKS):
        name = next(name for mark, name in _WIDE.items() if raw.startswith(mark))
        return f"it is {name}, and not UTF-8"
    if raw.startswith(b"\x1f\x8b"):
        return "it is packed by gzip, which its name does not say or which was done twice"
    return ""


def _text(raw: bytes) -> str:
    try:
        return _decoded(raw)
    except UnicodeDecodeError as exc:
        start = raw.rfind(b"\n", 0, exc.start) + 1
        problem = _not_utf_8(raw[start:], exc.start - start)
        raise Malformed(problem, raw.count(b"\n", 0, start) + 1) from exc


def _decoded(raw: bytes) -> str:
    if raw.isascii() and b"\0" not in raw:
        return raw.decode("ascii")  # no mark of another encoding or archive is ASCII
    if problem := not_text(raw):
        raise Malformed(problem, 1)
    if b"\0" in raw:
        line = raw.count(b"\n", 0, raw.index(b"\0")) + 1
        raise Malformed("it holds a NUL byte, so it is UTF-16 or no text", line)
    return raw.decode("utf-8")


def _not_utf_8(line: bytes, at: int) -> str:
    return f"byte {at + 1} of the line, 0x{line[at]:02x}, is not UTF-8"
