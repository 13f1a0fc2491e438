"""Small indexes of code search, and a small package to put into them."""

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.core.errors import BadFile
from harness.core.reading import whole
from harness.core.records import Document
from harness_engines.stacks.code import arm as code
from harness_engines.stacks.code.ranking import CodeSettings
from harness_engines.stacks.code.reading.documents import (
    BIGGEST,
    READ,
    extension,
    module_of,
    of_file,
)
from harness_engines.stacks.code.search import CodeSearch

RRF = {"rrf": {"k": 60, "sparse": 1.0, "ann": 1.0, "minhash": 1.0}}
BLEND = {"scoreBlend": {"sparse": 1.0, "ann": 1.0, "minhash": 1.0}}
GRAPH = {"degree": 0.3, "proximity": 0.5, "seedSelection": "top1"}
SETTINGS: dict[str, Any] = {
    "backend": "sqlite", "language": "english", "mode": "mixed", "depth": 100,
    "fields": {"name": 3, "signature": 1, "doc": 2, "comment": 1, "body": 1}, "embedder": "",
    "max_tokens": 64, "near_duplicate": 0.5, "search": RRF,
    "modes": {"code": 1.0, "prose": 1.0, "records": 1.0}, "mode_rrf_k": 60,
    "boosts": {"definition": 1.2, "export": 1.1, "phrase": 0.1},
}  # fmt: skip
BACKENDS = ("sqlite", "tantivy")
SHOP: dict[str, str] = tomllib.loads(Path(__file__).with_name("shop.toml").read_text("utf-8"))


def write_shop(folder: Path) -> Path:
    """Write the package's files; give its folder."""
    for name, text in SHOP.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "shop"


def documents(root: Path) -> Iterator[Document]:
    """Read every file below ``root``, in byte order of paths, which begin with its own name."""
    for path in sorted(root.rglob("*"), key=lambda path: path.as_posix().encode()):
        if extension(path.name) not in READ or not path.is_file():
            continue
        if path.stat().st_size <= BIGGEST:
            shown = f"{root.name}/{path.relative_to(root).as_posix()}"
            with suppress(BadFile):
                yield from of_file(shown, module_of(shown), whole(path, most=BIGGEST))


def stack(cache: Path, **changed: object) -> code.Code:
    return code.Code(CodeSettings.model_validate({**SETTINGS, **changed}), cache)


@contextmanager
def opened(folder: Path, documents: Sequence[Document], **changed: object) -> Iterator[CodeSearch]:
    """Build an index below ``folder`` and open it."""
    index = folder / f"index-{len(list(folder.iterdir()))}"
    index.mkdir()
    made = stack(folder / "cache", **changed)
    made.build(documents, index)
    with made.open(index) as searcher:
        assert isinstance(searcher, code.CodeSearcher)
        yield searcher.code
