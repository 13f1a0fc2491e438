"""The judgements of a panel as labels, and judgements made elsewhere taken into it."""

from __future__ import annotations

from pathlib import Path

from harness.core.durable.locks import held
from harness.core.durable.owned import check_new
from harness.core.errors import BadFile, UnknownName
from harness.corpus import labels
from harness.corpus import pool as pools
from harness.corpus.labels import Label
from harness.stages.judging.panel.panel import Panel


def export(panel: Panel, to: Path) -> int:
    """Write every judgement of every assessor as a label, and count them.

    Raises:
        NotOurs: ``to`` is there and holds something else than labels of these assessors.
        BadFile: a part cannot be read, or nothing is judged.
    """
    check_new(
        to, reads=(panel.folder,), ours=lambda file: labels.only_of(file, panel.assessors)
    )  # fmt: skip
    found = [
        Label(query_id=one.query_id, doc_id=one.doc_id, grade=one.grade, kind="person", by=name)
        for name, part in panel.parts.items()
        for one in part.judgements
    ]
    if not found:
        raise BadFile(panel.folder, "nothing is judged yet", "Judge first: harness serve")
    labels.write(to, found)
    return len(found)


def take(panel: Panel, file: Path, assessor: str) -> int:
    """Take one assessor's judgements, made elsewhere, into their part; all of them or none.

    Raises:
        UnknownName: the panel has no such assessor.
        BadFile: the file cannot be read, or a judgement does not fit the part.
    """
    if assessor not in panel.assessors:
        raise UnknownName("assessor", assessor, panel.assessors)
    given, path = labels.judgements(file, "person"), panel.path(assessor)
    with held(path):
        part = panel.part(assessor)
        place = {(pair.query_id, pair.doc_id): at for at, pair in enumerate(part.pairs)}
        grades = list(part.grades)
        new = 0
        for query_id, doc_id, grade in given.rows():
            at = place.get((query_id, doc_id))
            problem = ""
            if at is None:
                problem = f"{assessor} does not have this pair"
            elif grade not in part.pairs[at].scale:
                problem = f"the grade {grade} is not on the scale"
            elif grades[at] not in {None, grade}:
                problem = f"{assessor} judged it {grades[at]} already, and {grade} here"
            if problem or at is None:
                where = f"{doc_id} for query {query_id}: {problem}"
                raise BadFile(file, where, "Nothing was taken in; correct the file")
            new += grades[at] is None
            grades[at] = grade
        pools.write_grades(path, pools.Pool(part.pairs, tuple(grades)))
    return new
