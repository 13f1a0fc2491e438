"""What a comparison of two services found: a document for terminal and page."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.core.printable import counted, many, one_line
from harness.core.run import Run, Status
from harness.core.scores import Estimate, codes
from harness.gates.base.differences import asked_means
from harness.report import doc
from harness.report.html import explore_link
from harness.report.page.tables import QUERY
from harness.services.asking import ARMS, DEPTH
from harness.services.stage import RELEVANT, Price, ServicesFound
from harness.stats.bounded import ValueRange
from harness.stats.inference import Inference
from harness.stats.interval import interval_each, share, traffic_mean_each
from harness.stats.sample_size import min_queries
from harness.stats.times import Nanoseconds, order_interval

WORST = 20
CAUSES = 5
PAIR_S = 8
HOUR_S = 3_600
UNIT = ValueRange(0.0, 1.0)
FEWEST = 2
ALIKE = f"Jaccard@{DEPTH}"
Floats = NDArray[np.float64]


def document(found: ServicesFound, out: Path, inference: Inference) -> doc.Section:
    """Describe a comparison: how alike the two are, the worst queries, and what a verdict takes."""
    queries = counted(len(found.answers.queries), "query")
    said, times = _headline(found), _times(found, inference)
    return doc.Section(
        f"Two services on {queries} of {found.log}",
        (
            doc.Text(said, "headline"),
            doc.Cards((_card(said, found, times),)),
            doc.Items(tuple(_about(found))),
            _alike(found, inference),
            times,
            *_failures(found),
            *_worst(found),
            doc.Section("What a verdict takes", tuple(_verdict(found, out))),
        ),
    )


def _headline(found: ServicesFound) -> str:
    """Answer in a sentence how alike the services are."""
    agreement, of = found.evidence.agreement, len(found.answers.queries)
    compared = sum(name not in {"error", "timeout"} for name in agreement.classes)
    lost = f" {many(of - compared, 'query')} failed and are not compared." if of > compared else ""
    differ = int(found.differs.sum()) - (of - compared)
    if not differ:
        return f"{_same(found, compared)}{lost}"
    return f"The first ten differ for {differ:,} of {counted(compared, 'query')}.{lost}"


def _card(said: str, found: ServicesFound, times: doc.TableBlock) -> doc.Card:
    """Show what is known without a judgement, and the least that a verdict takes."""
    word = said.partition(":")[0] if said.startswith(("PASS", "INCONCLUSIVE")) else ""
    blocks: list[doc.Block] = [
        doc.Text(
            f"{name.text} {' → '.join(one.text for one in arms)} ms; {ratio.text} {ratio.note}",
            "measured",
        )
        for name, *arms, ratio in times.rows
        if isinstance(ratio, doc.Num)
    ]  # fmt: skip
    left = counted(found.pairs - found.judged, "pair")
    remains = [f"judge {left} of the pool" if found.pairs > found.judged else "decide, as below"]
    if priced := [one for one in found.prices if one.queries is not None]:
        least = min(priced, key=lambda one: one.pairs)
        pairs = counted(least.pairs, "judged pair")
        remains.append(f"a verdict on {least.measure} takes about {pairs}")
    if found.prices:
        blocks.append(doc.Items(tuple(remains), "What remains", "remains"))
    tone = "promote" if word == "PASS" else "unsure"
    return doc.Card(" → ".join(ARMS), word or "NO VERDICT YET", tuple(blocks), tone)


def _same(found: ServicesFound, compared: int) -> str:
    """Judge answers that are all the same, by the error of all attempts, as gates do."""
    alpha, (step,) = found.policy.alpha, found.policy.steps
    means = (mean for gate in step.gates for mean in asked_means(gate.settings, {}))
    margin = min((-mean.limit for mean in means if mean.limit < 0), default=0.0)
    most = share(0, compared, confidence=1 - 2 * alpha).high
    said = (
        f"the same answers, hit for hit, to {counted(compared, 'query')}: no judgement could tell"
        f" them apart. At most {most:.1%} of such queries differ"
    )
    if not margin:
        return f"INCONCLUSIVE: {said}."
    needed = min_queries(0.0, -margin, span=UNIT.differences, level=alpha)
    if compared >= needed:
        return f"PASS: {said}, so the mean loses less than {margin:g}."
    return f"INCONCLUSIVE: {said}. A mean loss below {margin:g} takes {needed} of them: --size."


def _about(found: ServicesFound) -> Iterator[str]:
    """Yield what was taken for what, who answered, and what the sample is of."""
    for one in found.services:
        version = found.answers.manifests[one.arm].version
        yield f"{one.arm}: {one.taken}. Its file: {one.file}"
        yield f"{one.arm}: identity {version}"
    counts = found.sample.counts
    out = ", ".join(f"{count:,} because {why}" for why, count in sorted(counts.left.items()))
    yield f"sample of {counted(counts.requests, 'request')}; left out: {out or 'none'}"
    noise = found.evidence.noise
    same = sum(name in {"exact", "both_empty"} for name in noise.classes)
    yield f"A/A: the control repeated its own list for {same} of {len(noise.classes)} queries"
    runs = found.evidence.control.run, found.evidence.candidate.run
    if not {*runs[0].vocabulary} & {*runs[1].vocabulary}:
        yield (
            "no document is shown by both: the ids may be of two kinds."
            " Name the one that both have: --map control.id=PATH,candidate.id=PATH"
        )


def _columns(found: ServicesFound) -> Mapping[str, Floats]:
    """Return values in [0, 1] by query, each of shape (queries,); NaN where there is none."""
    agreement, ids = found.evidence.agreement, found.evidence.agreement.query_ids
    runs = {one.arm: one.run for one in (found.evidence.control, found.evidence.candidate)}
    answered = {arm: run.status == Status.ANSWERED for arm, run in runs.items()}
    both = answered[ARMS[0]] & answered[ARMS[1]]
    first = [run.rankings(ids, 1) for run in runs.values()]
    shown = np.array([bool(first[0][q] or first[1][q]) for q in ids])
    top = np.array([first[0][q] == first[1][q] for q in ids])

    def by_query(name: str) -> Floats:
        values = agreement.scores[name].by_query
        return np.array([values.get(query_id, np.nan) for query_id in ids])

    columns = {
        "same list": np.where(both, ~found.differs, np.nan),
        "same first hit": np.where(both & shown, top, np.nan),
        f"overlap of the first {DEPTH} (Jaccard)": by_query(ALIKE),
        "overlap, top ranks first (RBO)": by_query("RBO"),
    }
    for arm, run in runs.items():
        columns[f"{arm}: no result"] = np.where(answered[arm], run.lengths == 0, np.nan)
        columns[f"{arm}: failed"] = (~answered[arm]).astype(np.float64)
    return columns


def _alike(found: ServicesFound, inference: Inference) -> doc.TableBlock:
    """Show agreement, empty answers and failures, over the requests and over the queries."""
    columns = _columns(found)
    drawn = [query.drawn for query in found.answers.queries if query.drawn]
    traffic = traffic_mean_each(
        np.array([*columns.values()]).T, drawn, spans=[UNIT] * len(columns), inference=inference
    )
    ids = found.evidence.agreement.query_ids
    rows: list[tuple[doc.Value | str, ...]] = []
    for (name, values), mean in zip(columns.items(), traffic, strict=True):
        known = ~np.isnan(values)
        clusters = codes(
            [q for q, one in zip(ids, known, strict=True) if one], found.evidence.clusters
        )
        each = (
            interval_each(
                values[known].reshape(-1, 1), span=UNIT, inference=inference, clusters=clusters
            )[0]
            if known.sum() >= FEWEST
            else None
        )
        unit = "" if "overlap" in name else "share"
        rows.append((
            name,
            doc.measured(mean.estimate if mean else None, unit),
            doc.measured(each, unit, n=True),
        ))  # fmt: skip
    return doc.table(
        "Without a judgement", ("", "over the requests of the log", "over the queries"), rows
    )


def _times(found: ServicesFound, inference: Inference) -> doc.TableBlock:
    """Show the times of both services over the queries that both answered."""
    sure, sides = inference.confidence, (found.evidence.control, found.evidence.candidate)
    both = np.logical_and(*(one.run.status == Status.ANSWERED for one in sides))
    times = [elapsed[both] for elapsed in found.answers.elapsed_ns]
    rows: list[tuple[doc.Value | str, ...]] = []
    if both.any():
        rows = [
            (
                f"p{percent:g}",
                *(doc.time_cell(order_interval(one, percent, confidence=sure)) for one in times),
                doc.measured(_ratio(times, percent, sure), "ratio", instead="too few times"),
            )
            for percent in (50.0, 95.0)
        ]
    caption = "Latency in milliseconds, one query at a time, from the request to the hits read"
    return doc.table(caption, ("", *ARMS, "candidate / control"), rows)


def _ratio(times: Sequence[Nanoseconds], percent: float, confidence: float) -> Estimate | None:
    """Divide two percentiles; each has half of the error, so the ends may be divided too."""
    control, candidate = (
        order_interval(one, percent, confidence=(1 + confidence) / 2) for one in times
    )
    if control is None or candidate is None:
        return None
    ends = candidate.low / control.high, candidate.high / control.low
    return Estimate(candidate.value / control.value, *ends, control.n)


def _failures(found: ServicesFound) -> Iterator[doc.Block]:
    """List why queries failed, the most frequent cause first."""
    runs: tuple[Run, ...] = (found.evidence.control.run, found.evidence.candidate.run)
    causes = Counter(
        f"{run.arm}: {one_line(why, QUERY)}" for run in runs for why in run.errors if why
    )
    if causes:
        said = tuple(f"{count:,} times {why}" for why, count in causes.most_common(CAUSES))
        yield doc.Items(said, "Failed queries, by cause")


def _worst(found: ServicesFound) -> Iterator[doc.Block]:
    """List the compared queries whose lists are least alike, the most requested first."""
    alike = found.evidence.agreement.scores[ALIKE].by_query
    classes = dict(
        zip(found.evidence.agreement.query_ids, found.evidence.agreement.classes, strict=True)
    )
    asked = {query.query_id: query for query in found.answers.queries}
    differing = {q for q, one in zip(asked, found.differs, strict=True) if one} & alike.keys()
    requests = {q: one.drawn.requests if one.drawn else 1 for q, one in asked.items()}
    worst = sorted(differing, key=lambda q: (alike[q], -requests[q], q))[:WORST]
    if not worst:
        return
    dataset = found.evidence.dataset
    yield doc.table(
        f"The {len(worst)} worst queries: those whose first {DEPTH} are least alike",
        ("query", "requests", f"overlap @{DEPTH}", "what differs"),
        (
            (
                doc.Cell(one_line(asked[q].text, QUERY), href=explore_link(dataset, *ARMS, q)),
                f"{requests[q]:,}", f"{alike[q]:.2f}", classes[q].replace("_", " "),
            )
            for q in worst
        ),
    )  # fmt: skip
    state = f"{explore_link(dataset, *ARMS)}&sort=alike"
    yield doc.Link("Every query with both lists side by side, the least alike first", state)


def _verdict(found: ServicesFound, out: Path) -> Iterator[doc.Block]:
    """Describe what a verdict takes, and what to type."""
    if not found.prices:
        yield doc.Text("Nothing is left to be judged on these queries.")
        return
    yield from (doc.Text(_price(one)) for one in found.prices)
    have = len(found.answers.queries)
    done = f", {found.judged:,} are judged" if found.judged else ""
    yield doc.Text(
        f"The pool has {counted(found.pairs, 'pair')} of {counted(have, 'query')}{done}."
    )
    if found.needed > have:
        different = sum(one.queries for one in found.sample.strata.values())
        more = f"run this command again with --size {found.needed}; grades are kept"
        if different < found.needed:
            more = f"this one has {counted(different, 'different query')}; take a longer one"
        queries = counted(found.needed, "query")
        yield doc.Text(f"All gates of {found.policy.name!r} take {queries} of the log: {more}.")
    yield doc.Text(
        f"The plan takes {RELEVANT:.0%} of the shown documents for relevant, whoever shows them,"
        " and each query to differ as its lists do. Judge some, and harness run plans by these."
    )
    arms = ",".join(shlex.quote(str(one.file)) for one in found.services)
    data, verdict = shlex.quote(str(found.data)), shlex.quote(str(out / "verdict"))
    control = found.services[0].file.stem
    yield doc.CodeBlock((
        f"harness judge {shlex.quote(str(found.pool))}",
        f"harness run --dataset {data} --arms {arms} --control {control} --out {verdict}",
    ))  # fmt: skip


def _price(price: Price) -> str:
    """State how many pairs show that the candidate keeps a margin."""
    wanted = f"To show that the candidate loses less than {price.margin:g} of {price.measure}"
    if price.queries is None:
        return f"{wanted}, no number of queries is known to be enough."
    hours = price.pairs * PAIR_S / HOUR_S
    pairs, queries = counted(price.pairs, "judged pair"), counted(price.queries, "query")
    now = ""
    if price.decides is not None:
        passes, fails = price.decides
        now = f"Those at hand decide it from {passes:+.2f} upwards and below {fails:+.2f}."
    return (
        f"{wanted}, if the two are equal, takes about {pairs} of {queries}"
        f" ({hours:.1f} hours at {PAIR_S} s a pair). {now}"
    )
