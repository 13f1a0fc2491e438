"""``harness sbom`` lists packages, and writes them as a file."""

from __future__ import annotations

import json

from tests.cli.conftest import Harness
from tests.make.toy import Toy


def test_packages_are_listed_with_their_licences(harness: Harness) -> None:
    said = harness("sbom")
    assert said.code == 0
    assert "numpy " in said.out
    assert any(line.endswith("MIT") and line.split()[0].isdigit() for line in said.out.splitlines())


def test_the_bill_is_written(project: Toy, harness: Harness) -> None:
    assert harness("sbom", "--to", "bill.json").code == 0
    bill = json.loads((project.root / "bill.json").read_text())
    assert {"pandas", "tantivy"} <= {one["name"] for one in bill["components"]}
