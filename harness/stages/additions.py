"""Files added to a folder that holds others: all of them or none, and none overwritten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.core.errors import HarnessError

SHEBANG, RUNNABLE = b"#!", 0o755
MAX_NAMED = 5


@contextmanager
def added(files: Mapping[Path, bytes]) -> Iterator[None]:
    """Write each file; what was made is removed again where the block raises.

    Raises:
        HarnessError: one of them exists.
        OSError: one of them cannot be made.
    """
    _none_exists(files)
    undo: list[Callable[[], None]] = []
    try:
        for path, content in files.items():
            for folder in reversed([one for one in path.parents if not one.exists()]):
                folder.mkdir()
                undo.append(folder.rmdir)
            with path.open("xb") as file:
                undo.append(path.unlink)
                file.write(content)
            make_runnable(path, content)
        yield
    except BaseException:
        for step in reversed(undo):
            with suppress(OSError):
                step()
        raise


def make_runnable(path: Path, content: bytes) -> None:
    """Let a script be started by its name."""
    if content.startswith(SHEBANG):
        path.chmod(RUNNABLE)


def _none_exists(files: Iterable[Path]) -> None:
    present = [str(path) for path in files if path.exists() or path.is_symlink()]
    if present:
        named = ", ".join(present[:MAX_NAMED]) + (", ..." if len(present) > MAX_NAMED else "")
        raise HarnessError(f"{named}: is there already. Move it, or name a new folder")
