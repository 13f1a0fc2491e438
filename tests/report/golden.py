"""Documents of pages as they are kept: written anew by ``python -m tests.report.golden``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.load import page as load
from harness.report import trends
from harness.report.doc import Section, to_json
from harness.report.page import view
from harness.shadow import page as shadow_page
from tests.make import report_inputs
from tests.report import test_shadow as shadow
from tests.report.test_load import load_report
from tests.report.test_trends import entry

FOLDER = Path(__file__).with_name("golden")


def _shadow() -> Section:
    found = shadow.found()
    sides = shadow_page.side_by_side(found.judged.standing, shadow.divergences())
    return shadow_page.document(found, sides, {}, shadow.TODAY, ("harness shadow report",))


DOCUMENTS: Mapping[str, Callable[[], Section]] = {
    "decision": lambda: view.document([report_inputs.report("mail")]),
    "load": lambda: load.document(load_report()),
    "shadow": _shadow,
    "trends": lambda: trends.document({"toy": [entry(number) for number in range(1, 5)]}),
}


def write() -> None:
    """Write every document into its file."""
    FOLDER.mkdir(exist_ok=True)
    for name, make in DOCUMENTS.items():
        (FOLDER / f"{name}.json").write_text(to_json(make()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
