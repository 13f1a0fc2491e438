"""Kinds of files, declared once: how each is read and written, and what makes it anew."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from harness.core import digest
from harness.core.errors import BadFile
from harness.core.files import append_text, json_text, write_bytes
from harness.core.formats import checked
from harness.core.reading import numbered, text_of

T = TypeVar("T")
WRONG = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError)


FORMAT = {("format",), ("schema_version",)}
OTHER = "Read it with the version that wrote it, and let this one begin a new file"


class StrictModel(BaseModel):
    """A record or table of a file: no key is unknown, none is missing, none is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Artifact(Generic[T]):
    """One kind of file; the last ``keep`` contents are read once and shared, never changed."""

    def __init__(
        self,
        what: str,
        load: Callable[[Path], T],
        dump: Callable[[T], bytes] | None = None,
        *,
        remedy: str = "Make it anew.",
        keep: int = 4,
    ) -> None:
        self.what, self.remedy = what, remedy
        self._load, self._dump, self._keep = load, dump, keep
        self._known: OrderedDict[str, T] = OrderedDict()

    def read(self, path: Path, remedy: str = "") -> T:
        """Return the value of a file."""
        try:
            sha256 = digest.of_file(path)
            if (found := self._known.get(sha256)) is None:
                found = self._load(path)
                self._remember(sha256, found)
        except FileNotFoundError as exc:
            raise BadFile(path, "no such file", remedy or self.remedy) from exc
        except WRONG as exc:
            raise bad(path, f"not {self.what}", exc, remedy or self.remedy) from exc
        return found

    def holds(self, path: Path) -> bool:
        """Return whether a file can be read as one of this kind."""
        try:
            self.read(path)
        except BadFile:
            return False
        return True

    def write(self, path: Path, value: T, *, durable: bool = False) -> None:
        """Write a value; the file appears whole, and the same value gives the same bytes."""
        if self._dump is None:
            raise TypeError(f"{self.what} is not written")
        self._remember(write_bytes(path, self._dump(value), durable=durable), value)

    def _remember(self, sha256: str, value: T) -> None:
        self._known[sha256] = value
        while len(self._known) > self._keep:
            self._known.popitem(last=False)


class Json(Artifact[T]):
    """A kind of file that holds one JSON value of a type that pydantic knows."""

    def __init__(
        self,
        what: str,
        of: Any,  # noqa: ANN401  a type
        *,
        remedy: str = "Make it anew.",
        keep: int = 4,
        strict: bool = False,
    ) -> None:
        adapter = cache(lambda: TypeAdapter(of))

        def load(path: Path) -> T:
            found: T = adapter().validate_json(checked(text_of(path)), strict=strict)
            return found

        def dump(value: T) -> bytes:
            return json_text(adapter().dump_python(value, mode="json")).encode()

        super().__init__(what, load, dump, remedy=remedy, keep=keep)


class Journal(Generic[T]):
    """One kind of file that only grows, by a record a line."""

    def __init__(
        self, what: str, load: Callable[[str], T], dump: Callable[[T], str], *, remedy: str
    ) -> None:
        self.what, self.remedy = what, remedy
        self._load, self._dump = load, dump

    def lines(self, path: Path) -> Iterator[tuple[int, str, T]]:
        """Yield number, text and record of each line that is not blank."""
        for number, line in numbered(path):
            try:
                yield number, line, self._load(line)
            except WRONG as exc:
                raise bad(path, f"not {self.what}", exc, self.remedy, number) from exc

    def read(self, path: Path) -> tuple[T, ...]:
        """Return all records, in their order."""
        return tuple(record for _, _, record in self.lines(path))

    def text(self, records: Iterable[T]) -> str:
        """Return the lines of some records."""
        return "".join(f"{self._dump(record)}\n" for record in records)

    def append(self, path: Path, records: Iterable[T]) -> None:
        """Add records at the end; writers take turns, and a reader finds all of them or none."""
        append_text(path, self.text(records))


class JsonLines(Journal[T]):
    """A journal of JSON records of a type that pydantic knows; ``dump`` writes them otherwise."""

    def __init__(
        self,
        what: str,
        of: Any,  # noqa: ANN401  a type
        dump: Callable[[Any], str] | None = None,
        *,
        remedy: str,
    ) -> None:
        adapter = cache(lambda: TypeAdapter(of))

        def load(line: str) -> T:
            found: T = adapter().validate_json(checked(line))
            return found

        def write(record: T) -> str:
            if dump:
                return dump(adapter().dump_python(record, mode="json"))
            return adapter().dump_json(record).decode()

        super().__init__(what, load, write, remedy=remedy)


def bad(path: Path, what: str, exc: Exception, remedy: str, line: int | None = None) -> BadFile:
    """Describe which file and which key or line an error is about, and what to do."""
    if isinstance(exc, ValidationError):
        first = exc.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"])) or ("the line" if line else "the file")
        if first["loc"] in FORMAT:
            return BadFile(path, f"of another format: {first['msg']}", OTHER, line)
        return BadFile(path, f"{key}: {first['msg']}", remedy, line)
    said = exc if isinstance(exc, OSError | ValueError) else repr(exc)
    return BadFile(path, f"{what} ({said})", remedy, line or getattr(exc, "line", None))
