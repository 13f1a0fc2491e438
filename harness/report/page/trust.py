"""How far verdicts can be trusted: their error budget, and how often they were wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.core.printable import counted, many
from harness.core.scores import Estimate
from harness.policy.model import Policy
from harness.policy.selftest.operating import OperatingCharacteristic, Selftest
from harness.report.rounding import number, percent, signed
from harness.report.rows import Cell, Table

TRUTHS = ("no difference", "half the bound", "the bound", "twice the bound")
TOO_LARGE = "unknown: too large to be planted"


@dataclass(frozen=True, slots=True)
class Trust:
    """What is known of the judge, beside what it says."""

    policy: Policy
    selftest: Selftest | None
    """None where none of this evidence and this policy is there."""
    command: str
    """What to type for a selftest."""

    def step(self, name: str) -> str:
        """State the measured false-promotion rate of each step; empty without steps."""
        own = {step.name: step for step in self.policy.steps}
        if name not in own:
            return ""
        looks = own[name].attempts
        over = "a single look" if looks == 1 else many(looks, "look")
        designed = f"the design allows {percent(self.alphas[name])} over {over}"
        if self.selftest is None:
            return f"False-promotion rate: not measured on these queries; {designed}."
        tried = [(one, one.worst) for one in self.selftest.gates if one.step == name]
        known = [(one.gate, worst) for one, worst in tried if worst]
        if not known:
            return (
                "False-promotion rate: not measured, because no gate of this step can be tested by"
                f" planted losses; {designed}."
            )
        gate, worst = max(known, key=lambda pair: pair[1].promoted.value)
        return (
            f"False-promotion rate: {_rate(worst.promoted)} of the trials in which {gate} loses"
            f" its whole bound ({worst.pattern}); {designed}."
            f"{self._power(name)}"
        )

    def _power(self, name: str) -> str:
        """Say how often the whole step was promoted where nothing differs, or twice is gained."""
        curve = self.selftest.curve(name) if self.selftest else None
        if curve is None or not curve.points:
            return ""
        gains = curve.points[-1].truth > 0
        point = curve.points[-1] if gains else curve.points[0]
        who = (
            f"that gains {number(point.truth)} of {curve.what}" if gains else "equal to its control"
        )
        return f" Power: a candidate {who} is promoted in {_rate(point.promoted)} of the trials."

    @property
    def alphas(self) -> dict[str, float]:
        """False-promotion rate of each step, by its name."""
        names = (step.name for step in self.policy.steps)
        return dict(zip(names, self.policy.error_budget.by_stage, strict=True))

    @property
    def together(self) -> str:
        """Say the error budget of all steps, what was measured, and whether null models lost."""
        allowed = self.policy.alpha
        limit = "the policy sets no limit" if allowed is None else f"allowed {percent(allowed)}"
        waiting = self.policy.chained and len(self.policy.steps) > 1
        how = "waiting for each other" if waiting else "each for itself"
        said = (
            f"Error budget of all steps together, {how}:"
            f" {percent(self.policy.error_budget.together)} by design ({limit})."
        )
        if self.selftest is None:
            return f"{said} False promotion was not measured on these queries; run: {self.command}"
        return " ".join((said, *self._found(self.selftest)))

    def _found(self, selftest: Selftest) -> Iterator[str]:
        """Say what the selftest measured of all gates, and whether the null models lost."""
        known = [worst for gate in selftest.gates if (worst := gate.worst)]
        if known:
            worst = max(known, key=lambda one: one.promoted.value)
            yield f"Measured false promotion of a gate: at most {_rate(worst.promoted)}."
        if selftest.convicted:
            names = ", ".join(f"{gate.step}: {gate.gate}" for gate in selftest.convicted)
            yield f"CONVICTED, so that a pass of theirs does not count: {names}."
        if not all(null.as_it_should for null in selftest.nulls):
            yield "INVALID: a null model was not refused, so no pass of its gates counts."
        elif selftest.nulls:
            yield "Null-model check passed."
        if steps := selftest.untried(step.name for step in self.policy.steps):
            yield (
                f"Null models were not tested in {', '.join(steps)}, because no gate is on quality."
                " An engine that ignores the query can pass."
            )

    def gate(self, step: str, gate: str) -> str:
        """Say how often a gate was wrong; empty where it was not tried."""
        found = self.selftest.of(step, gate) if self.selftest else None
        if found is None:
            return ""
        worst = found.worst
        pattern = f" ({worst.pattern})" if worst else ""
        return (
            f"Selftest: false-promotion rate {_rate(found.false_promote)}{pattern},"
            f" false-hold rate {_rate(found.false_hold)}, detects {_loss(found)}"
        )


def rates(found: Selftest, command: str) -> Table:
    """Show how often each gate was wrong where the truth was known."""
    rows = tuple(
        (
            Cell(f"{one.step}: {one.gate}", f"{one.what}, {counted(one.queries, 'query')}"),
            _worst(one),
            _cell(one.false_hold),
            Cell(_loss(one), f"in {percent(one.seen.value)} of the trials" if one.seen else ""),
        )
        for one in found.gates
    )
    allowed = (
        f"{many(found.trials, 'trial')} a rate; false promotion: {percent(found.level)} allowed"
    )
    header = ("gate", "false-promotion rate", "false-hold rate", "smallest loss detected")
    return Table(f"Operating characteristics of the gates ({allowed}; {command})", header, rows)


def curves(found: Selftest) -> Table:
    """Show how often each step was promoted, by what its queries lost or gained in truth."""
    rows = tuple(
        (
            Cell(curve.step, f"{many(curve.gates, 'gate')}; bound of {curve.gate} ({curve.what})"),
            *(
                Cell(percent(it.promoted.value), f"{_ends(it.promoted)}, truth {signed(it.truth)}")
                for it in curve.points
            ),
            *(Cell(TOO_LARGE) for _ in TRUTHS[len(curve.points) :]),
        )
        for curve in found.curves
    )
    caption = (
        f"Operating curve of each step: how often all its gates on means passed together, in"
        f" {many(found.trials, 'trial')} over the queries at hand; gates of other rules are taken"
        " to pass"
    )
    return Table(caption, ("step", *TRUTHS), rows)


def nulls(found: Selftest) -> Table:
    """Show the verdicts on null models, and on the control itself, as candidates."""
    rows = tuple(
        (
            Cell(f"{null.step}: {null.model}"),
            Cell(", ".join(f"{gate}: {said}" for gate, said in null.verdicts.items())),
            Cell("yes" if null.as_it_should else "NO"),
        )
        for null in found.nulls
    )
    return Table("Null models", ("as the candidate", "gates", "as it should"), rows)


def _rate(estimate: Estimate | None) -> str:
    return f"{percent(estimate.value)} {_ends(estimate)}" if estimate else TOO_LARGE


def _worst(operating_characteristic: OperatingCharacteristic) -> Cell:
    """Show the rate of each pattern, and mark those above the level that is allowed."""
    if operating_characteristic.worst is None:
        return Cell(TOO_LARGE)
    others = [
        f"{percent(one.promoted.value)} {_ends(one.promoted)} {one.pattern}"
        f"{' (beyond what the gate assumes)' if one.assumed else ''}"
        for one in operating_characteristic.planted
    ]
    return Cell(percent(operating_characteristic.worst.promoted.value), "; ".join(others))


def _cell(estimate: Estimate | None) -> Cell:
    return Cell(percent(estimate.value), _ends(estimate)) if estimate else Cell(TOO_LARGE)


def _ends(estimate: Estimate) -> str:
    return f"[{percent(estimate.low)}, {percent(estimate.high)}]"


def _loss(operating_characteristic: OperatingCharacteristic) -> str:
    if operating_characteristic.smallest_loss is None:
        return "no loss that can be planted"
    return f"a loss of {number(operating_characteristic.smallest_loss)}"
