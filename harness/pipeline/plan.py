"""A policy planned with what is at hand: a query set, and runs on it where there are some."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from harness.core.evidence import Evidence
from harness.core.files import scratch
from harness.core.scores import Clustering
from harness.corpus.prepared import Inventory, Prepared
from harness.pipeline.compare import read_agreement
from harness.pipeline.evidence import gathered, pairs_of, sides
from harness.pipeline.imports import load_folder
from harness.pipeline.layout import Layout
from harness.pipeline.pins import BeirFolder
from harness.pipeline.race import read_race
from harness.pipeline.score import slices
from harness.policy.load import for_candidates
from harness.policy.model import Policy
from harness.policy.plan import AtHand, Raced


class Ground(NamedTuple):
    """What a policy is planned on."""

    dataset: str
    at_hand: AtHand
    inventory: Inventory
    pilots: Mapping[str, Evidence]
    """By step."""


def ground(layout: Layout, policy: Policy, race: Raced | None) -> Ground:
    """Read the query set in ``layout``, and the runs of steps whose two arms were compared.

    ``race`` is how one is set up to be run; one that was run counts as it was.
    """
    data = Prepared.open(layout.data)
    return Ground(
        layout.root.name,
        at_hand(data, policy.clusters, raced(layout) or race),
        Inventory.of(data.queries(), data.qrels()),
        _pilots(layout, policy),
    )


def ground_of_folder(folder: BeirFolder, policy: Policy, race: Raced | None) -> Ground:
    """Read a query set in BEIR layout, before anything was run on it."""
    with scratch() as place:
        load_folder(folder.path, folder.split, place / "data", forms=folder.forms)
        data = Prepared.open(place / "data")
        inventory = Inventory.of(data.queries(), data.qrels())
        return Ground(
            folder.path.resolve().name, at_hand(data, policy.clusters, race), inventory, {}
        )


def at_hand(data: Prepared, how: Clustering, race: Raced | None) -> AtHand:
    """Count what prepared data has for gates to be judged on."""
    queries = data.queries()
    ids = (query.query_id for query in queries)
    return AtHand.of(ids, data.qrels(), slices(queries), data.clusters(how), race)


def raced(layout: Layout) -> Raced | None:
    """Return the size of the race in ``layout``; None where none was run."""
    race = read_race(layout)
    if race is None:
        return None
    return Raced(min(len(times) for times in race.elapsed_ns.values()), len(race.query_ids))


def for_control(layout: Layout, policy: Policy, control: str) -> Policy:
    """Plan the one step of a policy for every arm that was compared with ``control``."""
    others = [two for one, two in read_agreement(layout) if one == control != two]
    return for_candidates(policy, control, others)


def _pilots(layout: Layout, policy: Policy) -> dict[str, Evidence]:
    """Return evidence of the steps whose arms were scored and compared."""
    if not (layout.score_receipt.is_file() and layout.compare_receipt.is_file()):
        return {}
    compared = read_agreement(layout)
    pairs = {step: pair for step, pair in pairs_of(policy).items() if pair in compared}
    arms = sides(layout, [arm for (arm,) in layout.read(Layout.per_query)])
    return gathered(layout, pairs, arms, None, policy.clusters)
