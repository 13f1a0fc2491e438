"""Evaluation and shadow validation of search engines.

Data flows one way, and imports point the other::

    corpus -> replay -> measures, agreement -> gates -> policy -> report -> stages -> api, cli
    (all of them stand on core; stats serves everything right of it)

A stage of dvc.yaml, a module of ``harness.pipeline`` and a command of the CLI share one name.

For people, ``harness.load_run``, ``harness.compare`` and all other names of ``harness.api`` are
here too. They are looked up when they are requested (PEP 562), so that importing this costs
nothing; their types are in ``__init__.pyi``. No name is listed here: every stage of the pipeline
rests on this file, and a new name must not make all of them run again.
"""

from importlib import import_module

PUBLIC = "harness.api"


def __getattr__(name: str) -> object:
    """Return a public name of ``harness.api``, or the version that is installed."""
    if name == "__version__":
        from importlib.metadata import version

        return version("search-harness")
    if name == "__all__":
        return import_module(PUBLIC).__all__
    if not name.startswith("_"):
        api = import_module(PUBLIC)
        if name in api.__all__:
            return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module(PUBLIC).__all__})
