"""``harness plan``, ``harness policy`` and ``harness decide``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.app import Forms, out
from harness.cli.migration import by, now
from harness.cli.project import Dataset, Left, Project, left_by_run, one_of
from harness.core.printable import many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.gates.base.rules import Rules
    from harness.policy.model import Policy
    from harness.policy.plan import Counted, Need, Planned, PlannedStep
    from harness.stages.layout import Layout
    from harness.stages.plan import Ground


USUAL = 0.3
"""Share of the queries that most candidates move."""


def register_plan(app: typer.Typer) -> None:
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
    from harness.policy.plan import Assumed
    from harness.policy.plan import plan as planned

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
    from harness.policy.plan import Raced
    from harness.stages.custody.pins import Folder
    from harness.stages.plan import ground, ground_of_folder

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
    from harness.cli.project import evidence_at
    from harness.stages.plan import for_control, ground

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


def register_policy(app: typer.Typer) -> None:
    """Put ``policy`` on the command line."""
    group = typer.Typer(
        no_args_is_help=True, help="A policy, and the queries, judgements and race it is pinned to."
    )
    group.callback()(_group)
    group.command()(pin)
    app.add_typer(group, name="policy")


def _group() -> None:
    """Keep ``pin`` a command of its own, though it is the only one."""


def pin(
    policy: Annotated[Path, typer.Argument(help="The policy's file.")],
    dataset: Annotated[
        str, typer.Option(help="A folder of datasets/, or a folder in BEIR layout.")
    ] = "",
    left: Left = None,
    split: Annotated[str, typer.Option(help="Which judgements of a BEIR folder.")] = "test",
    *,
    forms: Forms = False,
) -> None:
    """Pin queries, judgements and race settings, as they are now, beside a policy.

    Writes POLICY.pins.json: a digest a query, and one for its judgements. From then on a decision
    on other evidence is INCONCLUSIVE and names what was added, removed or changed, until it is
    pinned again. When, by whom and over which changes is kept. Exit codes: 0 pinned, 2 bad input.

    Example: harness policy pin policy/migration.toml --dataset python-docs
    """
    from harness.core.errors import HarnessError
    from harness.policy.load import load_policy
    from harness.policy.pins import path_of
    from harness.stages.custody.pins import Folder, pin_folder
    from harness.stages.custody.pins import pin as stage

    one_of(dataset, left)
    if not (dataset or left):
        raise HarnessError("name what is pinned: --dataset, or --out of a harness run")
    load_policy(policy)
    if Path(dataset).is_dir() and not left:
        folder = Folder(Path(dataset), split, forms=forms)
        made = pin_folder(folder, policy, at=now(), by=by())
    else:
        layout: Layout = left_by_run(left) if left else Project.here().layout(dataset)
        made = stage(layout, policy, at=now(), by=by())
    for line in made.made[-1].changes:
        out.print(f"changed: {line}", markup=False)
    of = made.inventory
    raced = (
        f"{many(len(made.race), 'setting')} of the race"
        if made.race
        else "no race, for none was run"
    )
    out.print(
        f"pinned in {path_of(policy)}: {many(len(of.queries), 'query')},"
        f" {many(of.judged, 'judgement')} of"
        f" {many(len(of.judgements), 'query')}, {raced}",
        markup=False,
    )


def register_decide(app: typer.Typer) -> None:
    """Put ``decide`` on the command line."""
    app.command()(decide)


def decide(
    policy: Annotated[Path, typer.Option(help="The policy to judge by.")],
    dataset: Dataset = "",
    left: Left = None,
    control: Annotated[
        str, typer.Option(help="Judge every other arm against this one; the policy has one step.")
    ] = "",
    step: Annotated[str, typer.Option(help="Only this step decides the exit code.")] = "",
) -> None:
    """Judge evidence that is there by another policy, and exit by it.

    No index is opened, no query is run again and no decision is written: the one of record is still
    that of harness gate. That it was judged is a line of the experiment log. Exit codes: 0 every
    step may be taken, 1 a gate fails, 2 bad input, 3 inconclusive.

    Example: harness decide --policy policy/stricter.toml --dataset python-docs
    """
    from datetime import UTC, datetime

    from harness.cli.verdicts import show
    from harness.core.errors import UnknownName
    from harness.policy.decision import exit_code, worst
    from harness.policy.load import load_policy
    from harness.stages.gate import decide_again as stage

    one_of(dataset, left)
    judged_by = load_policy(policy)
    if left:
        places = [left_by_run(left)]
    else:
        project = Project.here()
        names = project.datasets(dataset)
        places = [project.layout(name) for name in names]
    codes = []
    for layout in places:
        decisions = stage(layout, judged_by, policy, control=control, now=datetime.now(UTC))
        steps = [one.step for one in decisions]
        if step and step not in steps:
            raise UnknownName("step", step, steps)
        show(layout.root.name, decisions)
        codes.append(exit_code(one for one in decisions if step in {"", one.step}))
    raise typer.Exit(worst(codes))
