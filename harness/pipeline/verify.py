"""Everything that a decision rests on: its digests recomputed, and its values derived again."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pydantic import ValidationError

from harness.core import digest
from harness.core.batches import code_sha256
from harness.core.engine import IMPORTED
from harness.core.errors import BadFile, EvidenceError
from harness.core.files import json_text, scratch, write_text
from harness.core.folders import RUN, mark
from harness.core.formats import json_file, json_of, moment_of
from harness.core.parts import kinds
from harness.core.printable import many
from harness.core.reading import text_of
from harness.core.run import Status
from harness.core.scores import BY_TEXT
from harness.corpus import card, trec
from harness.corpus.clusters import CLUSTERS, near_duplicates, parted
from harness.corpus.prepared import CORPUS, MANIFEST, QRELS, QUERIES, Prepared
from harness.corpus.runs import ARM, CLASS_COLUMNS, PAIR, read_run, score_columns, table_of
from harness.measures.quality import oracle
from harness.pipeline import experiments, gate, receipts
from harness.pipeline.compare import compare, ties
from harness.pipeline.evidence import ReportSubject, gathered, measured, pairs_of, sides
from harness.pipeline.experiments import ExperimentLog
from harness.pipeline.layout import Declared, Layout
from harness.pipeline.oneshot import TIES, exports
from harness.pipeline.params import CompareParams, ScoreParams
from harness.pipeline.race import read_race
from harness.pipeline.receipts import LOCK, check_recorded, read_manifest
from harness.pipeline.report import linked
from harness.pipeline.score import score
from harness.policy.load import NamedStep, as_applied, load_policy
from harness.policy.model import Policy
from harness.policy.selftest import Tried, selftest
from harness.policy.validity import SLACK, check_past, read_pins
from harness.report import files as pages
from harness.report.inputs import ReportInput

DECISION = "decision.json"
OWN = (".", mark(Path(), RUN).name)
SHOWN = 5
PREFIX = 12


class Verified(NamedTuple):
    """One thing that is as it was when the decision was made."""

    what: str
    said: str


def verify(layout: Layout, *, deep: bool = True) -> tuple[Verified, ...]:
    """Compute the decision in ``layout`` again from its raw evidence, and compare.

    Whoever edits a decision can write every receipt anew. So all that follows from runs,
    judgements, raw times and policy is computed again, and if ``deep`` each measure by ir-measures.
    """
    hint = f"Bring the file back, or decide anew: harness gate --dataset {layout.root.name}"
    gate.read_decision(layout)
    about, subject = judged_in(layout)
    said = about["provenance"]
    arms = tuple(said["arms"])
    files = tuple(dict.fromkeys(gate.rests_on(layout, arms, subject.policy_file)))
    receipts.check(layout.decision_receipt, files, hint)
    noted = {
        path
        for one in (layout.score_receipt, layout.compare_receipt, *map(layout.run_receipt, arms))
        for path in receipts.check_all(one, hint)
    }
    clusters = _data(layout, hint)
    answers = sum(_answers(layout, arm, hint) for arm in arms)
    race = read_race(layout)
    same = code_sha256() == said["code_version"]
    check_times(layout, about, subject)
    try:
        again = derive(layout, about, subject)
        twice = check_values(layout) if deep else None
    except EvidenceError as exc:
        why = "" if same else " The code changed since it was decided, so this may be why."
        raise EvidenceError(f"{exc}.{why} {hint}") from exc
    findings = many(sum(len(step["findings"]) for step in about["steps"]), "finding")
    deeply = "nothing (--no-deep)" if twice is None else f"{many(twice, 'value')} by ir-measures"
    asked = ", ".join(f"{arm} {at}" for arm, at in sorted(said["replayed_at"].items()))
    raw = "the race's raw times, " if about["latency"] else ""
    return (
        Verified("decision", f"{layout.decision}, of {said['decided_at']}"),
        Verified("policy", f"{about['policy']['name']}, {about['policy']['sha256'][:PREFIX]}"),
        *(Verified(f"{of} sha256", sha) for of, sha in said["sha256"].items()),
        *(
            Verified(f"arm {arm}", f"{row['engine']} {row['fingerprint'][:PREFIX]}")
            for arm, row in said["arms"].items()
        ),
        clusters,
        Verified("answers", f"{answers}, each by its own arm's fingerprint"),
        Verified("race", f"of {race.raced_at}" if race else "none was run"),
        Verified("files", f"{len(noted.union(files))} held byte by byte against receipts"),
        Verified("derived again", f"{many(again, 'value')} by query, {findings}"),
        Verified(
            "taken as stated",
            f"what the engines answered, {raw}when they were run ({asked or 'time not recorded'}),"
            " machine and packages. --requery asks the engines again",
        ),
        Verified("counted twice", deeply),
        Verified("code", "the same" if same else "changed since; every value is still the same"),
    )


def verify_with_files(
    layout: Layout, left: Path | None, root: Path, *, deep: bool = True
) -> tuple[Verified, ...]:
    """Verify a decision, and the files beside it: in ``left`` by one run, or in the project."""
    found = verify(layout, deep=deep)
    if left:
        return (*found, *verify_exports(left, layout))
    return (*found, *verify_sources(root, layout), *verify_pages(root / "reports", layout))


def judged_arms(layout: Layout) -> tuple[str, ...]:
    """Name the arms that the decision in ``layout`` speaks of."""
    (about,) = json_file(layout.decision)["datasets"]
    return tuple(about["provenance"]["arms"])


def verify_sources(root: Path, layout: Layout) -> tuple[Verified, ...]:
    """Check a pipeline's own files against its data: judgements, card, and what DVC recorded."""
    name = layout.root.name
    data = Prepared.open(layout.data).manifest
    hint = f"Bring the file back, or run: harness stage prepare --dataset {name}"
    about = card.read(root / "datasets" / name)
    said = {"corpus": data.corpus_sha256, "queries": data.queries_sha256}
    for kind, sha in {**said, "qrels": data.qrels_sha256}.items():
        if getattr(about.sha256, kind) != sha:
            path = root / "datasets" / name / card.FILE
            raise EvidenceError(f"{path}: names other {kind} than {layout.data} holds. {hint}")
    if (about.complete or "") != data.complete:
        raise EvidenceError(
            f"{root / 'datasets' / name / card.FILE}: says other things of the completeness of its"
            f" judgements than {layout.data}. {hint}"
        )
    judged = root / "qrels" / name / f"{about.split}.qrels"
    if card.of_qrels(trec.qrels(judged)) != data.qrels_sha256:
        raise EvidenceError(f"{judged}: are not the judgements in {layout.data}. {hint}")
    recorded = check_recorded(root, name)
    return (
        Verified("card and judgements", f"{judged}"),
        Verified(LOCK, many(len(recorded), "path") if recorded else "records none"),
    )


def verify_exports(out: Path, layout: Layout) -> tuple[Verified, ...]:
    """Make the files that ``harness run`` put into ``out`` again, and compare."""
    hint, arms, runs = "Run the same harness run again", judged_arms(layout), out / "runs"
    copies = exports(layout, arms, out)
    made = {runs / f"{arm}.trec": trec.run_text(read_run(layout.run(arm))) for arm in arms}
    if (out / TIES).is_file():
        imported = [arm for arm in arms if read_manifest(layout, arm).engine == IMPORTED]
        (about,) = json_file(layout.decision)["datasets"]
        measures = about["provenance"]["settings"]["score"]["measures"]
        tied = {arm: read_run(layout.run(arm)) for arm in imported}
        made[out / TIES] = json_text(ties(Prepared.open(layout.data), tied, measures)[1])
    for file, sha256 in {
        **{file: digest.of_file(of) for file, of in copies.items()},
        **{file: _sha256(text) for file, text in made.items()},
    }.items():
        _check(file, sha256, hint)
    checked = {*copies, *made, *_check_pages(out, [layout], hint)}
    own = (path for path in sorted(out.rglob("*")) if path.is_file() and path not in checked)
    names = [path.relative_to(out).as_posix() for path in own]
    left = [name for name in names if not name.startswith(("work/", *OWN))]
    more = f" and {len(left) - SHOWN} more" if len(left) > SHOWN else ""
    return (
        Verified(
            "files to be read", f"{many(len(checked), 'file')} in {out}, rebuilt and compared"
        ),
        Verified("not checked", f"{', '.join(left[:SHOWN])}{more}" if left else "nothing"),
    )


def verify_pages(out: Path, layout: Layout) -> tuple[Verified, ...]:
    """Write the pages of a pipeline in ``out`` again, and compare."""
    file = out / DECISION
    if not any((out / name).exists() for name in ("index.html", "report.md", DECISION)):
        return (Verified("pages", "none was written"),)
    names = [str(one["dataset"]) for one in json_file(file)["datasets"]]
    found = _check_pages(out, [_beside(layout, name) for name in names], "Run: harness report")
    of = f"of {', '.join(names)} in {out}, rebuilt and compared"
    return (Verified("pages", f"{many(len(found), 'file')} {of}"),)


def _beside(layout: Layout, dataset: str) -> Layout:
    """Return the layout of another data set of the same project."""
    kept = layout.kept_log and layout.kept_log.with_name(f"{dataset}.jsonl")
    root, today, cache = (at.with_name(dataset) for at in (layout.root, layout.today, layout.cache))
    return Layout(root, today, cache, kept_log=kept)


def _check_pages(out: Path, layouts: Sequence[Layout], hint: str) -> tuple[Path, ...]:
    """Write the pages of these decisions again, and compare them with those in ``out``."""
    reports = []
    for layout in layouts:
        _, subject = judged_in(layout)
        reports.append(linked(gate.stored(layout, subject).report(subject), layout, out))
    found: dict[str, str] = {}
    for one in _as_linked(reports):
        written = {name: _sha256(text) for name, text in pages.texts(one).items()}
        found = found or written
        same = {n: sha for n, sha in written.items() if _is(out / n, sha)}
        found |= same
        if len(same) == len(written):
            break
    if {one.provenance.code_version for one in reports} != {code_sha256()}:
        hint = f"The code changed since, so this may be why. {hint}"
    for name, sha256 in found.items():
        _check(out / name, sha256, hint)
    return tuple(out / name for name in found)


def _sha256(text: str) -> str:
    return digest.of_bytes(text.encode())


def _is(file: Path, sha256: str) -> bool:
    return file.is_file() and digest.of_file(file) == sha256


def _check(file: Path, sha256: str, hint: str) -> None:
    if not file.is_file():
        raise EvidenceError(f"{file}: is gone. {hint}")
    if not _is(file, sha256):
        raise EvidenceError(f"{file}: is not what its evidence gives. {hint}")


NOW, BEFORE, GONE = "now", "before", ""
"""How evidence beside a decision stands on its page: as it is, as it was not yet, not at all."""


def _as_linked(reports: Sequence[ReportInput]) -> Iterator[list[ReportInput]]:
    """Return the reports with all that was left beside them, and then with less of it."""
    ways = {"beside": (NOW, BEFORE, GONE), "apart": (NOW, GONE), "history": (NOW, GONE)}
    left = [
        how if any(getattr(one, part) for one in reports) else (NOW,) for part, how in ways.items()
    ]
    for beside, apart, history in product(*left):
        yield [
            replace(
                one,
                beside=tuple(partial(of, now=beside is NOW) for of in one.beside if beside),
                apart=one.apart if apart else (),
                history=one.history if history else "",
            )
            for one in reports
        ]


def _data(layout: Layout, hint: str) -> Verified:
    """Count the digests of the data from its content, and find its clusters again."""
    data = Prepared.open(layout.data)
    for file, noted, counted in (
        (CORPUS, data.manifest.corpus_sha256, digest.of_documents(data.documents())),
        (QUERIES, data.manifest.queries_sha256, digest.of_queries(data.queries())),
        (QRELS, data.manifest.qrels_sha256, card.of_qrels(data.qrels())),
    ):
        if counted != noted:
            path = layout.data / file
            raise EvidenceError(f"{path}: is not what {layout.data / MANIFEST} says. {hint}")
    kept, of = data.found(), (data.queries(), data.qrels(), data.found().similar)
    if kept.near_duplicates != near_duplicates(*of) or kept.parted != parted(*of):
        raise EvidenceError(f"{layout.data / CLUSTERS}: is not what the queries give. {hint}")
    pairs = many(len(kept.similar.pairs), "pair")
    model = f"; {pairs} of {kept.similar.model}, as recorded" if kept.similar.pairs else ""
    return Verified("clusters", f"found again by words and judged documents{model}")


def _answers(layout: Layout, arm: str, hint: str) -> int:
    """Count the answers of an arm; each must be its own, and its index of this corpus."""
    manifest, count = read_manifest(layout, arm), 0
    receipts.check_corpus(layout, arm, manifest, Prepared.open(layout.data))
    for path in (layout.run(arm), layout.again(arm)):
        run = read_run(path)
        served = zip(run.served_by, run.status, strict=True)
        own = [who == manifest.fingerprint for who, how in served if how == Status.ANSWERED]
        count += len(own)
        if run.arm != arm or not all(own):
            raise EvidenceError(f"{path}: holds answers of another engine than {arm}. {hint}")
    return count


def try_gates(layout: Layout, policy: Policy, *, trials: int) -> tuple[Tried, ...]:
    """Try the gates of ``policy`` on the runs in ``layout``."""
    arms = sides(layout, policy.arms)
    evidence = gathered(layout, pairs_of(policy), arms, None, policy.clusters)
    return selftest(policy, evidence, trials=trials)


SAME = 1e-9


def check_values(layout: Layout) -> int:
    """Compute every measure of every arm with ir-measures, and count the values that are equal."""
    data = Prepared.open(layout.data)
    qrels, asked = data.qrels(), [query.query_id for query in data.queries()]
    count = 0
    for (arm,), scores in layout.read(Layout.per_query).items():
        library = oracle(read_run(layout.run(arm)), qrels, tuple(scores), asked)
        for name, wanted in library.items():
            found, exact = scores[name].by_query, wanted.by_query
            for query_id in dict.fromkeys([*found, *exact]):
                ours, theirs = found.get(query_id), exact.get(query_id)
                if ours is None or theirs is None or abs(ours - theirs) > SAME:
                    raise EvidenceError(
                        f"{name} of {arm} for query {query_id} is {ours}, but ir-measures says"
                        f" {theirs}; the scores are wrong: fix harness.measures"
                    )
            count += len(exact)
    return count


def derive(layout: Layout, about: Mapping[str, Any], subject: ReportSubject) -> int:
    """Compute all that the decision in ``layout`` says again, and compare; count its values."""
    before = experiments.before_decision(layout, about["record"]["number"])
    at, stated = moment_of(about["provenance"]["decided_at"]), about["provenance"]
    with scratch() as folder:
        again = _raw_beside(layout, folder, before)
        score(again, subject.arms, subject.score)
        values = _same(layout, again, Layout.per_query, score_columns(ARM))
        pairs = list(dict.fromkeys(subject.pairs.values()))
        how = subject.policy.clusters if subject.policy else BY_TEXT
        compare(again, pairs, subject.compare, subject.rules, how=how)
        values += _same(layout, again, Layout.agreement, score_columns(PAIR))
        _same(layout, again, Layout.classes, CLASS_COLUMNS)
        report = gate.as_stated(gate.decided(measured(again, subject), subject, before, at), stated)
        means = (Layout.scores, Layout.slices, Layout.differences)
        texts = {of: text_of(of.at(again)) for of in means} | gate.texts(report)
        for path, text in ((of.at(layout), text) for of, text in texts.items()):
            _same_text(path, text)
    return values


def _raw_beside(layout: Layout, folder: Path, before: ExperimentLog) -> Layout:
    """Make a layout in ``folder`` that has the raw evidence of ``layout``, and nothing derived."""
    again = Layout(folder / "build" / layout.root.name, folder / "today", layout.cache)
    again.experiments.mkdir(parents=True)
    write_text(again.log, before.text)
    for path in (
        *(layout.data, layout.manifests, layout.tunings, layout.runs, layout.race_receipt),
        *(layout.times, layout.replays, *layout.experiments.glob("inventory-*.json")),
        *(path for kind in kinds() for path in kind.artifacts(layout)),
    ):
        tracked = path.is_relative_to(layout.root)
        of, to = (layout.root, again.root) if tracked else (layout.today, again.today)
        link = to / path.relative_to(of)
        if path.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path.resolve())
    return again


def _same(layout: Layout, again: Layout, what: Declared[Any], columns: pa.Schema) -> int:
    """Compare a table that was stored with the one derived again, and count its rows."""
    stored, derived = (_values(what.at(of), columns) for of in (layout, again))
    if stored != derived:
        _refuse(what.at(layout), stored, derived)
    return len(stored)


def _values(path: Path, columns: pa.Schema) -> dict[str, Any]:
    """Read a table of values, or of reasons without one, and what the file says of itself."""
    last = [name for name in columns.names if name in {"value", "undefined", "class"}]
    table = table_of(path, columns, last)
    keys = zip(*(table.column(n).to_pylist() for n in columns.names if n not in last), strict=True)
    said = zip(*(table.column(n).to_pylist() for n in last), strict=True)
    found: dict[str, Any] = {}
    for key, values in zip(keys, said, strict=True):
        given = [one for one in values if one is not None]
        found[".".join(key)] = given[0] if len(given) == 1 else given
    about = (table.schema.metadata or {}).items()
    return found | {str(key, errors="replace"): str(one, errors="replace") for key, one in about}


def _same_text(path: Path, derived: str) -> None:
    """Compare a file: where it holds JSON, its values first, so that one can be named."""
    stored = text_of(path)
    if stored == derived:
        return
    if path.suffix == ".json":
        _refuse(path, json_of(stored), json_of(derived))
        raise EvidenceError(f"{path}: says the same in other bytes than those it was written in")
    raise EvidenceError(f"{path}: is not what the decision beside it gives")


def _refuse(path: Path, stored: object, derived: object) -> None:
    if difference := gate.first_difference(stored, derived):
        raise EvidenceError(f"{path}: {difference}")


def judged_in(layout: Layout) -> tuple[dict[str, Any], ReportSubject]:
    """Read what the decision in ``layout`` says of its one data set, and what it judged and how."""
    hint = f"Decide anew: harness gate --dataset {layout.root.name}"
    beside = receipts.check_all(layout.decision_receipt, hint)
    about: dict[str, Any]
    (about,) = json_file(layout.decision)["datasets"]
    of, sha256 = about["provenance"], about["policy"]["sha256"]
    policy_file = next((path for path in beside if digest.of_file(path) == sha256), None)
    if policy_file is None:
        raise EvidenceError(
            f"{layout.decision}: was made by a policy {sha256[:PREFIX]} that"
            f" {layout.decision_receipt} does not name. {hint}"
        )
    steps = [NamedStep(one["step"], one["control"], one["candidate"]) for one in about["steps"]]
    policy = as_applied(load_policy(policy_file), steps)
    pin = about["evidence"]["pin"]["command"]
    try:
        settings = of["settings"]
        subject = ReportSubject(
            pairs=pairs_of(policy),
            arms=tuple(settings["gate"]["arms"]),
            rules=policy.rules,
            licence=of["licence"],
            source=of["source"],
            commands=tuple(of["commands"]),
            score=ScoreParams.model_validate(settings["score"]),
            compare=CompareParams.model_validate(settings["compare"]),
            policy=policy,
            policy_file=policy_file,
            pin=pin,
            place=shlex.join(shlex.split(pin)[-2:]),
        )
    except (KeyError, TypeError, ValidationError) as exc:
        raise BadFile(layout.decision, f"does not state its settings ({exc!r})", hint) from exc
    return about, subject


def check_times(layout: Layout, about: Mapping[str, Any], subject: ReportSubject) -> None:
    """Refuse a decision whose time is not its log line's, or that rests on a time of the future."""
    decided_at = moment_of(about["provenance"]["decided_at"])
    number = int(about["record"]["number"])
    experiments.before_decision(layout, number)
    log = experiments.read(layout)
    logged = log.experiments[number - 1].at
    if abs(logged - decided_at) > SLACK:
        raise EvidenceError(
            f"{layout.decision}: was decided at {decided_at.isoformat()}, and line {number} of"
            f" {layout.log}, which is of it, is of {logged.isoformat(timespec='seconds')}. Decide"
            f" anew: harness gate --dataset {layout.root.name}"
        )
    stated = [(f"{layout.log}:{one.number}", one.at) for one in log.experiments]
    file = subject.policy_file
    if file and (pin := read_pins(file).datasets.get(layout.root.name)):
        stated += [(str(file), made.at) for made in pin.made]
    for where, at in stated:
        try:
            check_past(at)
        except EvidenceError as exc:
            raise EvidenceError(f"{where}: {exc}. {experiments.HINT}") from exc
