"""A plan registered before its results are seen, and compared with what was judged later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from harness.core import digest
from harness.core.experiment import Experiment
from harness.core.gate import Finding
from harness.corpus.prepared import Prepared
from harness.policy.load import load_policy
from harness.policy.looks import looked_so_far
from harness.policy.model import Policy
from harness.policy.plan.departures import departures, departures_today
from harness.policy.plan.plan import PlannedStep
from harness.policy.plan.registration import Registration, cited, common, registered_steps, write
from harness.policy.reservations import not_as_registered
from harness.report.page.custody import Registered
from harness.stages.custody.code import code_sha256
from harness.stages.experiments.inputs import stock
from harness.stages.layout import Layout
from harness.stages.plan.planning import Ground, at_hand, raced


def register(
    path: Path,
    policy_file: Path,
    planned: Sequence[PlannedStep],
    about: Ground,
    log: Sequence[Experiment],
    *,
    at: datetime,
    by: str,
) -> str:
    """Write what was planned into ``path``, and give the file's digest.

    Raises:
        BadFile: there is such a file, or none can be written.
    """
    policy = load_policy(policy_file)
    return write(
        path,
        Registration(
            at=at,
            by=by,
            policy=policy.name,
            policy_sha256=digest.of_file(policy_file),
            code=code_sha256(),
            rules=common(policy),
            dataset=about.dataset,
            inventory=about.inventory,
            looked=looked_so_far(log, policy),
            steps=registered_steps(planned),
        ),
    )


def registered_of(
    layout: Layout, policy: Policy, policy_file: Path, looks: Mapping[str, int]
) -> Registered | None:
    """Compare what is judged in ``layout`` with the registration of ``policy``, if it has one.

    ``looks`` is how often each step was looked at, this time included; it may be empty.

    Raises:
        BadFile: the file cannot be read.
    """
    found = cited(policy, policy_file, layout.root.name)
    if found is None:
        return None
    name, of = found.file.name, found.registration
    if of is None:
        said = (f"the policy demands {name}, and missing file",)
        return Registered(name, None, "", "", 0, found.demanded, said, ())
    here = at_hand(Prepared.open(layout.data), policy.clusters, None)
    written = load_policy(policy_file)
    return Registered(
        file=name,
        sha256=digest.of_file(found.file),
        at=of.at.isoformat(timespec="seconds"),
        by=of.by,
        looked=max(of.looked.values(), default=0),
        demanded=found.demanded,
        departures=departures(of, written, here, layout.root.name, stock(layout)),
        today=departures_today(of, raced(layout), looks),
    )


def unregistered(registered: Registered | None) -> tuple[Finding, ...]:
    """Say what keeps every step from being promoted where the policy demands a registration."""
    if registered is None or not registered.demanded:
        return ()
    each = ((registered.departures, False), (registered.today, True))
    return tuple(not_as_registered(said, today=today) for said, today in each if said)
