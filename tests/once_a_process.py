"""What tests of whole commands do once in a process: models are read.

Pictures are not drawn, and a decision is derived again once while its files are the same. All of it
always says the same. What reads, derives, or draws has tests of its own, which use none of this.
Models and the pipeline are imported where they are used: goldens draw nothing, and start often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from io import TextIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from unittest.mock import patch

from matplotlib.figure import Figure

from harness.core import digest
from harness.core.parts import has, part
from harness.report import svg, trends

if TYPE_CHECKING:
    from harness.pipeline.evidence import ReportSubject
    from harness.pipeline.layout import Layout
    from harness_engines.vector.embedder import PackagedModel

EMPTY = '<svg viewBox="0 0 1 1"></svg>'
DRAW = (
    svg,
    trends,
    *(part(name, "page") for name in ("load",) if has(name)),
)
"""Where what draws is looked up; each module that draws has tests of its own."""
MOST_READ = 500
"""Texts whose reading is kept."""


def remembered(read: Callable[[Any, Any], Any]) -> Callable[[Any, str | Sequence[str]], Any]:
    """Keep what was read, by the model, the length it reads to, and the texts."""
    known: dict[object, Any] = {}

    def once(encoder: Any, texts: str | Sequence[str]) -> Any:  # noqa: ANN401  as the encoder's
        key = encoder.identity, texts if isinstance(texts, str) else tuple(texts)
        if key not in known:
            if len(known) == MOST_READ:
                known.clear()
            known[key] = read(encoder, texts)
        return known[key]

    return once


def loaded(load: Callable[[Any, int], Any]) -> Any:  # noqa: ANN401  as the encoder's
    """Keep a model, and look each time whether its files are there: a test may take them away."""
    kept = cache(load)

    def once(model: PackagedModel, max_tokens: int) -> Any:  # noqa: ANN401  as the encoder's
        model.weights.path()
        model.tokenizer.path()
        return kept(model, max_tokens)

    return staticmethod(once)


@cache
def _once() -> Sequence[tuple[type, str, Any]]:
    """Return the methods that load and read, with what takes their place."""
    from harness_engines.sparse import Splade
    from harness_engines.vector.embedder import OnnxEmbedder

    return (
        (OnnxEmbedder, "load", loaded(OnnxEmbedder.load)),
        (OnnxEmbedder, "_states", remembered(OnnxEmbedder._states)),  # noqa: SLF001  where it reads
        (Splade, "load", loaded(Splade.load)),
        (Splade, "encode", remembered(Splade.encode)),
    )


@contextmanager
def models() -> Iterator[None]:
    """Load a model and let it read a text once in this process."""
    with ExitStack() as patched:
        for kind, name, once in _once():
            patched.enter_context(patch.object(kind, name, once))
        yield


def _undrawn(_: Figure, to: IO[Any], **__: object) -> None:
    """Write an empty picture: writing takes most of a figure's time."""
    to.write(EMPTY if isinstance(to, TextIOBase) else EMPTY.encode())


def unpainted(name: str, about: str, _: tuple[float, float], __: object) -> str:
    """Return an empty picture in the place of one."""
    return vars(svg)["_for_page"](EMPTY, name, about)  # type: ignore[no-any-return]


@contextmanager
def pictures(*, painted: bool) -> Iterator[None]:
    """Write empty pictures on pages; what is ``painted`` is seen to be paintable."""
    with ExitStack() as patched:
        patched.enter_context(patch.object(Figure, "savefig", _undrawn))
        for module in () if painted else DRAW:
            patched.enter_context(patch.object(module, "draw", unpainted))
        yield


@contextmanager
def derivations() -> Iterator[None]:
    """Derive each decision again once in this process, wherever a copy of its files lies."""
    from harness.pipeline import verify

    derived: dict[str, int] = {}
    derive = verify.derive

    def once(layout: Layout, about: Any, subject: ReportSubject) -> int:  # noqa: ANN401  of JSON
        judged = replace(subject, policy_file=None)
        key = repr((_files(layout.root), _files(layout.today), about, judged))
        if key not in derived:
            derived[key] = derive(layout, about, subject)
        return derived[key]

    with patch.object(verify, "derive", once):
        yield


def _files(folder: Path) -> list[tuple[str, str]]:
    """Name the files of a folder, each with its digest."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(str(path.relative_to(folder)), digest.of_file(path)) for path in paths]
