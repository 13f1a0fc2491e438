"""``harness plan``: how many queries a policy needs, before anything is judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base.app import out
from harness.cli.base.imports import Forms
from harness.cli.base.places import Left, left_by_run, one_of
from harness.cli.base.project import Project
from harness.core.printable import many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.gates.base.rules import Rules
    from harness.policy.model import Policy
    from harness.policy.plan.at_hand import Counted
    from harness.policy.plan.need import Need
    from harness.policy.plan.plan import Planned, PlannedStep
    from harness.stages.plan.planning import Ground


USUAL = 0.3
"""Share of the queries that most candidates move."""


def register(app: typer.Typer) -> None:
    """Put ``plan`` on the command line."""
    app.command()(plan)


def plan(
    policy: Annotated[Path, typer.Option(help="The policy to plan.")],
    dataset: Annotated[
        str, typer.Option(help="A folder of datasets/, or a folder in BEIR layout. [none]")
    ] = "",
    left: Left = None,
    *,
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder.")] = "test",
    control: Annotated[
        str, typer.Option(help="Plan a policy of one step for every arm compared with this one.")
    ] = "",
    gain: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="True gain where a gate asks for one. [twice its margin]"),
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Deviation of a query's difference, without a pilot."),
    ] = None,
    forms: Forms = False,
) -> None:
    """Say how many queries each gate needs, how many there are, and how many are lacking.

    At the very least, by margin and confidence: fewer leave room for a loss that none of them
    shows. And with the policy's power where the true difference is 0, or the gain assumed: for
    each gate alone, and for all gates of the step together. Runs that were scored and compared are
    the pilot that spread, design effect and rates are taken from. Without any, --spread assumes
    one. Without a data set, margin and confidence alone are answered. Runs no query.
    Exit codes: 0 planned, 2 bad input.

    Example: harness plan --policy policy/migration.toml --dataset python-docs
    """
    from harness.policy.load import load_policy
    from harness.policy.plan.need import Assumed
    from harness.policy.plan.plan import plan as planned

    one_of(dataset, left)
    whole = load_policy(policy)
    about = _ground(whole, dataset, left, split, forms=forms) if dataset or left else None
    of = whole
    if control:
        of, about = _for_control(whole, dataset, left, control)
    at_hand, pilots = (about.at_hand, about.pilots) if about else (None, {})
    assume = Assumed(gain, spread)
    steps = planned(of, at_hand, pilots, assume)
    _show(of, about, steps)


def _ground(policy: Policy, dataset: str, left: Path | None, split: str, *, forms: bool) -> Ground:
    from harness.policy.plan.at_hand import Raced
    from harness.stages.custody.pinning import Folder
    from harness.stages.plan.planning import ground, ground_of_folder

    if left:
        return ground(left_by_run(left), policy, None)
    race = Project.here().params.race
    set_up = Raced(race.processes, race.queries)
    if Path(dataset).is_dir():
        return ground_of_folder(Folder(Path(dataset), split, forms=forms), policy, set_up)
    return ground(Project.here().layout(dataset), policy, set_up)


def _for_control(
    policy: Policy, dataset: str, left: Path | None, control: str
) -> tuple[Policy, Ground]:
    from harness.cli.base.places import evidence_at
    from harness.stages.plan.planning import for_control, ground

    layout = evidence_at(dataset, left)
    each = for_control(layout, policy, control)
    return each, ground(layout, each, None)


def _show(policy: Policy, about: Ground | None, steps: tuple[PlannedStep, ...]) -> None:
    rules = policy.rules
    where = f"on {about.dataset}" if about else "by margin and confidence alone"
    out.print(
        f"\n{policy.name}, {where}: {many(policy.attempts, 'planned attempt')}, each at confidence"
        f" {rules.confidence:g}; power {rules.power:g}",
        markup=False,
    )
    for planned in steps:
        step = planned.step
        out.print(f"\nstep {step.name}: {step.candidate} against {step.control}", markup=False)
        for one in planned.needs:
            out.print(f"  {one.gate.name}: {_bound(one)}", markup=False)
            for line in _lines(one, rules):
                out.print(f"    {line}", markup=False)
        if planned.lacking:
            out.print(f"  step {step.name} lacks: {', '.join(planned.lacking)}", markup=False)
        elif about:
            out.print(f"  step {step.name} lacks no query that is planned", markup=False)


def _bound(one: Planned) -> str:
    means = f" ({one.need.means})" if one.need.means else ""
    return f"{one.gate.settings.bound}{means}"


def _lines(one: Planned, rules: Rules) -> Iterator[str]:
    """Say least, power, what is not planned, and what is at hand."""
    need = one.need
    if need.equal:
        yield _equal(need)
    if need.least:
        kind = "" if need.processes else "independent "
        again = f" in {many(need.processes, 'process')} or more" if need.processes else ""
        yield f"needs {need.least:,} {kind}{need.of}{again} at the very least"
    if need.forecast and one.alone is not None:
        kind = "independent " if need.independent else ""
        yield (
            f"needs {max(one.alone, need.least):,} {kind}{need.of} for power {rules.power:g} alone,"
            f" {one.queries:,} for all gates together, with {need.forecast.said}"
        )
    elif need.forecast:
        yield f"no number passes it with {need.forecast.said}"
    if need.note:
        yield f"not planned further: {need.note}" if need.least else need.note
    if need.have is not None:
        yield _at_hand(one, need.have)
    if ends := one.decides(rules):
        yield (
            f"so many pass from a measured {ends[0]:+.3f} on, and fail below {ends[1]:+.3f}, if"
            " they differ as in the pilot"
        )


def _equal(need: Need) -> str:
    """Say what an equal candidate takes, by the share of the queries that it moves."""
    counts = dict(need.equal)
    usual = USUAL if USUAL in counts else max(counts)
    others = ", ".join(f"{of:.0%}: {count:,}" for of, count in need.equal if of != usual)
    return (
        f"an equal candidate needs about {counts[usual]:,} judged {need.of} where {usual:.0%} of"
        f" them move by half ({others})"
    )


def _at_hand(one: Planned, have: Counted) -> str:
    some = "" if have.independent == have.queries else f", {have.independent:,} independent"
    some += f" in {many(one.need.raced, 'process')}" if one.need.processes else ""
    short = [f"{one.lacks:,}"] if one.lacks else []
    short += [many(one.lacks_processes, "process")] if one.lacks_processes else []
    said = f"lacks {', '.join(short)}" if short else "enough"
    return f"has {have.queries:,}{some}: {said}"
