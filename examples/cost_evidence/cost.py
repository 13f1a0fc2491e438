"""What 1,000 queries cost as evidence: a command, a gate and a line on the page."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.cli.command import Result, app, command, said
from harness.cli.options import ArmName, EvidencePlace
from harness.core.evidence import ArmResult, Evidence
from harness.core.files import write_json
from harness.core.formats import json_file
from harness.core.gate import Finding, Verdict
from harness.core.parts import EvidenceKind
from harness.gates.base.rules import GateSettings, Ratio, Rules
from harness.pipeline.layout import Layout
from harness.report.doc import Section, Text


@dataclass(frozen=True)
class Cost:
    absent: ClassVar[tuple[str, str]] = ("what a query costs is not known", "run: harness cost")
    dollars: Mapping[str, float]


class Settings(GateSettings):
    needs: ClassVar[tuple[type, ...]] = (Cost,)
    max_ratio: Ratio
    bound = property(lambda self: f"costs at most {self.max_ratio:g} times as much")
    unit = property(lambda _: "ratio")

    def judge(self, gate: str, evidence: Evidence, rules: Rules) -> Finding:  # noqa: ARG002
        costs = evidence.of(Cost).dollars
        ratio = costs[evidence.candidate.arm] / costs[evidence.control.arm]
        verdict = Verdict.PASS if ratio <= self.max_ratio else Verdict.FAIL
        return self.finding(gate, verdict, f"1,000 queries cost {ratio:.2f} times as much")


def file(at: Layout) -> Iterator[Path]:
    yield from at.root.glob("cost.json")


def collect(at: Layout, *arms: ArmResult) -> Cost | None:
    costs = next(map(json_file, file(at)), {})
    return Cost(costs) if all(one.arm in costs for one in arms) else None


def section(at: Layout, _: Mapping[str, str], __: Path) -> Callable[..., Section] | None:
    costs = next(map(json_file, file(at)), {})
    told = tuple(Text(f"{arm} costs {dollars:g} dollars") for arm, dollars in costs.items())
    return (lambda *_, **__: Section("Cost of 1,000 queries", told)) if told else None


@command(app)
def cost(of: EvidencePlace, arm: ArmName, dollars: float) -> Result:
    """State what 1,000 queries of an arm cost."""
    at = of.layout()
    write_json(at.root / "cost.json", {**next(map(json_file, file(at)), {}), arm: dollars})
    return said(f"{arm} costs {dollars:g}")


KIND = EvidenceKind("cost", Cost, collect, file, section, {"cost": "cost"}, commands="cost")
