"""Documents of pages as they are kept: written anew by ``python -m tests.report.golden``."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from harness.core import digest
from harness.core.gate import Verdict
from harness.core.scores import Dependence
from harness.load import page as load
from harness.policy.load import load_policy
from harness.report import ci, trends
from harness.report import decision as decision_json
from harness.report.doc import Section, to_json, to_markdown
from harness.report.explorer import to_explorer
from harness.report.inputs import ReportInput, SincePart
from harness.report.page import view
from harness.shadow import page as shadow_page
from tests.make import report_inputs
from tests.make.report_inputs import data_of
from tests.report import test_cards as cards
from tests.report import test_decision as decision
from tests.report import test_live as shadow
from tests.report.test_live import load_report
from tests.report.test_trends import entry
from tests.source import ROOT

FOLDER = Path(__file__).with_name("golden")


def decided() -> ReportInput:
    """Three steps, with the policy that is shipped, a pin, a log and dependent queries."""
    pin = cards.pinned("2026-03-01", 2, "1 query added (b)", "race k is 20, pinned 50")
    since = SincePart(at="2026-02-01T00:00:00+00:00", changes=("1 query removed (a)",))
    kept = replace(cards.KEPT, pin=pin, since=since, number=5, raced=True, earlier=("race",))
    return replace(
        report_inputs.report("mail"),
        judged_by=load_policy(ROOT / "policy" / "migration.toml"),
        custody=kept,
        dependence={"tantivy": {"nDCG@10": Dependence(40, 25, 6, 1.6)}},
    )


def _shadow() -> Section:
    found = shadow.found()
    sides = shadow_page.side_by_side(found.traces, shadow.divergences().values())
    return shadow_page.document(found, sides, {}, shadow.TODAY, ("harness shadow report",))


def _ci() -> Section:
    losses = (decision.LOSS, replace(decision.LOSS, query_id="q2", now=None, instead="timed_out"))
    found = decision.compared(Verdict.FAIL, *losses, changed=("code: shop/rank.py",))
    first = decision.checked(Verdict.INCONCLUSIVE, blocked_by="before")
    return Section("Comments", (ci.document(found, 1), ci.document(first, 5)))


DOCUMENTS: Mapping[str, Callable[[], Section]] = {
    "decision": lambda: view.document([decided()]),
    "load": lambda: load.document(load_report()),
    "shadow": _shadow,
    "trends": lambda: trends.document({"toy": [entry(number) for number in range(1, 5)]}),
    "ci": _ci,
}


def digests() -> dict[str, str]:
    """Compute a digest of each thing that is too large to keep, or has a test of its own."""
    both = [decided(), report_inputs.compared_only("bare")]
    return {
        "report.md": digest.of_bytes(to_markdown(view.document(both)).encode()),
        "decision.json": digest.of_json(decision_json.to_json(both)),
        "junit.xml": digest.of_bytes(ci.to_junit(both).encode()),
        **{name: digest.of_json(held) for name, held in data_of(to_explorer(both)).items()},
    }


def write() -> None:
    """Write every document into its file, and the digests."""
    FOLDER.mkdir(exist_ok=True)
    for name, make in DOCUMENTS.items():
        (FOLDER / f"{name}.json").write_text(to_json(make()) + "\n", encoding="utf-8")
    (FOLDER / "digests.json").write_text(json.dumps(digests(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
