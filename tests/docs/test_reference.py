"""The reference pages name every key, rule, arm and stack that there is, and no other."""

from __future__ import annotations

import pkgutil
import tomllib

import pytest
from pydantic import BaseModel

from harness.gates.base import rules
from harness.pipeline.params import Params
from harness.policy.model import Demands, GateHead, Header, Premises, StepTable
from harness_engines import registry as arms
from harness_engines import stacks
from tests.docs.pages import HEADING, ROOT, page

PARAMS, ENGINES = page("docs/params.md"), page("docs/engines.md")
STACKS = arms.known_stacks()
SECTIONS = {
    name: field.annotation
    for name, field in Params.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}


@pytest.mark.parametrize("name", rules.names())
def test_each_rule_has_its_settings_and_no_other(name: str) -> None:
    assert sorted(PARAMS.keys(f"`{name}`")) == sorted(rules.load(name).settings.model_fields)


def test_no_rule_is_described_that_does_not_exist() -> None:
    headings = HEADING.findall(PARAMS.text.partition("## The rules")[2])
    described = {heading.strip("`") for heading in headings if heading.startswith("`")}
    assert described == set(rules.names())


def test_params_yaml_is_described_key_by_key() -> None:
    assert PARAMS.keys("`params.yaml`") == list(Params.model_fields)


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_each_section_of_params_yaml_is_described_key_by_key(section: str) -> None:
    assert PARAMS.keys(f"`{section}`") == list(SECTIONS[section].model_fields)


@pytest.mark.parametrize(
    ("heading", "model"),
    [
        ("`[policy]`", Header),
        ("`[policy.evidence]`", Demands),
        ("`[policy.premises]`", Premises),
        ("`[[step]]`", StepTable),
        ("`[[step.gate]]`", GateHead),
    ],
)
def test_policy_tables_are_described_key_by_key(heading: str, model: type[BaseModel]) -> None:
    assert PARAMS.keys(heading) == list(model.model_fields)


def test_every_arm_has_a_row() -> None:
    assert sorted(ENGINES.keys("The arms")) == sorted(arms.names())


@pytest.mark.parametrize("stack", STACKS)
def test_each_stack_has_its_settings_and_no_other(stack: str) -> None:
    settings = vars(pkgutil.resolve_name(f"{stacks.__name__}.{STACKS[stack]}"))["Settings"]
    assert sorted(ENGINES.keys(f"`{stack}`")) == sorted(settings.model_fields)


def test_every_decision_is_in_the_list() -> None:
    index = page("docs/decisions/README.md")
    files = {path.name for path in index.path.parent.glob("[0-9]*.md")}
    assert set(index.links()) == files
    for name in files:
        assert page(f"docs/decisions/{name}").text.startswith(f"# {int(name[:4])}. ")


def test_every_decision_has_its_evidence_and_its_price() -> None:
    for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        found = path.read_text(encoding="utf-8")
        for part in ("Context", "Decision", "Evidence", "Price"):
            assert f"**{part}.**" in found, f"{path.name} has no {part}"


def test_the_licence_is_the_one_that_the_package_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert project["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0, January 2004" in licence


def test_the_picture_of_the_page_is_small() -> None:
    assert (ROOT / "docs" / "images" / "report.png").stat().st_size < 250_000
