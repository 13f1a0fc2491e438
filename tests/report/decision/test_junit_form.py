"""The form of ``junit.xml`` that the xUnit plugin of Jenkins insists on, and what GitLab reads.

Jenkins: elements with their attributes, in their order. GitLab: every case has a name, unique
within the file with its class, and one result at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest

from harness.core.gate import Finding
from harness.report.decision.ci import to_junit
from tests.make import report_inputs


class Form(NamedTuple):
    """What an element may be."""

    children: str
    """Regular expression over the names of its children, each with a space after it."""
    required: frozenset[str]
    optional: frozenset[str]


RESULT = Form("", frozenset(), frozenset({"message", "type"}))
TEXT = Form("", frozenset(), frozenset())
FORMS = {
    "testsuites": Form(
        r"(testsuite )*",
        frozenset(),
        frozenset(["name", "time", "tests", "failures", "disabled", "errors"]),
    ),
    "testsuite": Form(
        r"(properties )?(testcase )*(system-out )?(system-err )?",
        frozenset({"name", "tests"}),
        frozenset([
            "failures",
            "errors",
            "time",
            "disabled",
            "skipped",
            "timestamp",
            "hostname",
            "id",
            "package",
        ]),
    ),
    "properties": Form(r"(property )+", frozenset(), frozenset()),
    "property": Form("", frozenset({"name", "value"}), frozenset()),
    "testcase": Form(
        r"((skipped|error|failure|system-out|system-err) )*",
        frozenset({"name", "classname"}),
        frozenset({"assertions", "time", "status"}),
    ),
    "skipped": RESULT,
    "failure": RESULT,
    "error": RESULT,
    "system-out": TEXT,
    "system-err": TEXT,
}


def faults(root: ET.Element) -> Iterator[str]:
    """Say what is not as the form has it."""
    for element in root.iter():
        if element.tag not in FORMS:
            yield f"no element {element.tag}"
            continue
        form = FORMS[element.tag]
        has = set(element.keys())
        if not form.required <= has <= form.required | form.optional:
            yield f"{element.tag} has {sorted(has)}"
        names = "".join(f"{child.tag} " for child in element)
        if not re.fullmatch(form.children, names):
            yield f"{element.tag} holds {names}"
        for name in ("tests", "failures", "errors", "skipped"):
            if name in has and not element.get(name, "").isdecimal():
                yield f"{element.tag} counts {name} as {element.get(name)}"


def strange(finding: Finding) -> Finding:
    return replace(
        finding, gate=f"{finding.gate} <&\x00\ud800>]]>", reason="a\x1b[31m]]>\n&amp;<b>"
    )


def reports() -> Iterator[ET.Element]:
    whole = report_inputs.report()
    spoilt = report_inputs.rejudged(
        whole, lambda one: replace(one, findings=tuple(map(strange, one.findings)))
    )
    empty = report_inputs.rejudged(whole, lambda one: replace(one, findings=()))
    for found in ([whole], [spoilt], [empty], []):
        yield ET.fromstring(to_junit(found))  # noqa: S314  just written


@pytest.mark.parametrize("root", [*reports()], ids=["whole", "strange", "no gates", "nothing"])
def test_jenkins_takes_it(root: ET.Element) -> None:
    assert list(faults(root)) == []


@pytest.mark.parametrize("root", [*reports()], ids=["whole", "strange", "no gates", "nothing"])
def test_gitlab_tells_cases_apart(root: ET.Element) -> None:
    cases = [(case.get("classname"), case.get("name")) for case in root.iter("testcase")]
    assert len(set(cases)) == len(cases)
    for case in root.iter("testcase"):
        assert (case.get("name") or "").strip()
        assert len([child for child in case if child.tag in {"skipped", "error", "failure"}]) <= 1


@pytest.mark.parametrize(
    "text",
    [
        "<testsuites skipped='1'/>",
        "<testsuites><testsuite name='a'/></testsuites>",
        "<testsuites><testcase name='a' classname='b'/></testsuites>",
        "<testsuites><testsuite name='a' tests='x'/></testsuites>",
        "<testsuites><testsuite name='a' tests='1'><testcase name='b'/></testsuite></testsuites>",
        "<testsuites><note/></testsuites>",
    ],
)
def test_another_form_is_noticed(text: str) -> None:
    assert list(faults(ET.fromstring(text)))  # noqa: S314  written above
