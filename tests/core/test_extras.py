"""Optional parts: what brings them, and what is said where one is missing."""

import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from harness.cli.exit_codes import failed
from harness.cli.oneshot import NEEDS
from harness.core import errors
from harness.corpus import card
from tests.source import ROOT, imported, known

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OPTIONAL = PROJECT["optional-dependencies"]


MODULES = {
    "google-re2": "re2", "hdrhistogram": "hdrh", "jpype1": "jpype", "pyyaml": "yaml",
    "markdown-it-py": "markdown_it", "python-docx": "docx", "opentelemetry-api": "opentelemetry",
}  # fmt: skip
"""Packages whose module is called otherwise."""


BROUGHT = {"markupsafe", "pydantic_core"}
"""Modules of packages that those of the core cannot be without: jinja2 and pydantic."""


def modules(requirements: list[str]) -> set[str]:
    names = [re.match(r"[\w-]+", one).group().lower() for one in requirements]  # type: ignore[union-attr]
    return {MODULES.get(name, name.replace("-", "_")) for name in names}


def test_the_modules_are_those_of_the_package() -> None:
    assert {*errors.EXTRAS, errors.DEMO, "all"} == set(OPTIONAL)
    for extra, names in errors.EXTRAS.items():
        assert set(names) <= modules(OPTIONAL[extra]), extra
    everything = {name for extra in errors.EXTRAS for name in modules(OPTIONAL[extra])}
    assert everything == {name for names in errors.EXTRAS.values() for name in names}
    assert OPTIONAL["all"] == [f"{errors.DISTRIBUTION}[{','.join(errors.EXTRAS)}]"]


@pytest.mark.slow
def test_whatever_is_imported_comes_with_the_core_or_with_an_extra() -> None:
    core = modules(PROJECT["dependencies"]) | BROUGHT
    optional = {name for names in errors.EXTRAS.values() for name in names}
    ours = {"harness", "harness_engines"}
    used = {name.partition(".")[0] for one in known().values() for name in imported(one.tree)}
    assert used - set(sys.stdlib_module_names) - ours - core - optional == {"mlflow"}, (
        "a run of MLflow is the user's own"
    )
    assert core - BROUGHT <= used
    assert "numpy" in packages_distributions()


@pytest.mark.parametrize(
    ("name", "extra"),
    [("tantivy", "engines"), ("starlette.routing", "serve"), ("mcp", "mcp"), ("dvc", "pipeline")],
)
def test_a_missing_package_is_named_with_its_extra(
    name: str, extra: str, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = ModuleNotFoundError(f"No module named {name!r}", name=name)
    assert failed(missing, debug=False) == 2
    said, package = capsys.readouterr().err, name.partition(".")[0]
    remedy = f'Run: pip install "search-harness[{extra}]"'
    assert said == f"error: the package {package} is not installed. {remedy}\n"


def test_the_demo_has_the_versions_that_its_data_are_read_from() -> None:
    packages = card.read(ROOT / "datasets" / "python-docs").packages
    exact = [f"{name}=={version}" for name, version in packages.items()]
    rest = f"{errors.DISTRIBUTION}[{','.join(NEEDS)}]"
    assert sorted(OPTIONAL[errors.DEMO]) == sorted([*exact, rest])
