"""The bill of materials names what is installed, and how it is licensed."""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

import pytest

from harness.stages.custody.sbom import NOT_STATED, OURS, Component, cyclonedx, installed

pytestmark = pytest.mark.slow


def test_every_installed_package_is_named_once() -> None:
    found = [one.name.lower() for one in installed()]
    assert found == sorted(set(found))
    assert {*found, OURS} == {one.name.lower() for one in distributions()} | {OURS}


def test_licences_are_those_that_the_packages_state() -> None:
    stated = {one.name: one.licence for one in installed()}
    assert "BSD" in stated["numpy"]
    assert stated["scipy"] == "BSD License"
    assert "Apache" in stated["tokenizers"]
    assert not [name for name, licence in stated.items() if len(licence) > 200]


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ("License-Expression: MIT\nLicense: other", "MIT"),
        ("Classifier: License :: OSI Approved :: ISC License (ISCL)", "ISC License (ISCL)"),
        ("License: Zlib", "Zlib"),
        ("License: UNKNOWN", NOT_STATED),
        (f"License: {'long ' * 40}", NOT_STATED),
        ("Classifier: License :: OSI Approved", NOT_STATED),
    ],
)
def test_the_first_clear_word_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metadata: str, licence: str
) -> None:
    folder = tmp_path / "planted_thing-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: planted_Thing\nVersion: 1.0\n{metadata}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = (one for one in installed() if one.name == "planted_Thing")
    assert found == Component("planted_Thing", "1.0", licence)
    assert found.purl == "pkg:pypi/planted-thing@1.0"


def test_the_bill_is_cyclonedx_and_the_same_each_time() -> None:
    components = installed()
    bill = cyclonedx(components)
    assert bill == cyclonedx(components)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert len(bill["components"]) == len(components) > 50
    refs = [one["bom-ref"] for one in bill["components"]]
    assert len(set(refs)) == len(refs)
