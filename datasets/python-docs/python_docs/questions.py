"""What people would ask to find an object, made from the packages' own words.

``natural-language``: the summary line of an object, taken out of its document. Not every summary
is a query that could be judged; it is taken if it

* is a phrase of 4 to 30 words: no placeholder that the package fills in when imported, and no colon
  that leads on to more,
* belongs to one object only (compared without case and punctuation) among all harvested,
* does not stand in the rest of its own document, and
* does not name its object: neither the bare name as a word nor its words in a row (``read csv``).
  Such a summary is a search by name, which is the other slice.

The object has grade 2, the objects that its "See Also" names have grade 1.

``identifier``: what a person types who knows the name. Each chosen object has one form: the bare
name (``lstsq``), the name as code has it (``np.linalg.lstsq``, ``DataFrame.merge``), or
the name from memory (``read csv``, ``dataframe``: no underscores, no capitals). A bare name, also
from memory, means every document that bears it, and all have grade 2: nothing in the query
prefers one. A name as code has it means one object, with grade 2; its namesakes have grade 1.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from harness.core.digest import of_bytes
from harness.core.records import Judgement, Query
from python_docs.harvest import Entry
from python_docs.numpydoc import PLACEHOLDER, plain

NATURAL_LANGUAGE = "natural-language"
IDENTIFIER = "identifier"
MEANT, RELATED = 2, 1
FEWEST_WORDS, MOST_WORDS = 4, 30
MOST_NAMESAKES = 5
"""A bare name that more documents bear is not a query that anybody would leave at that."""
WORD = re.compile(r"[a-z0-9]+")
UNFIT = re.compile(rf"{PLACEHOLDER.pattern}| : |:$")
INSIDE_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")
SHORT = {"numpy": "np", "pandas": "pd", "matplotlib.pyplot": "plt"}


class JudgedQuery(NamedTuple):
    """One query with its judgements."""

    query: Query
    judgements: tuple[Judgement, ...]


def by_digest(names: Iterable[str]) -> list[str]:
    """Order names by their SHA-256: as good as drawn by lot, and the same everywhere."""
    return sorted(names, key=lambda name: of_bytes(name.encode()))


def natural_language(
    entries: Mapping[str, Entry], chosen: Mapping[str, tuple[str, ...]], limit: int
) -> list[JudgedQuery]:
    """Ask for at most ``limit`` of the ``chosen`` objects (name: its links) by summary."""
    summaries: dict[str, int] = {}
    for entry in entries.values():
        key = " ".join(words(entry.docstring.summary))
        summaries[key] = summaries.get(key, 0) + 1
    fit = [
        name
        for name in by_digest(chosen)
        if summaries[" ".join(words(entries[name].docstring.summary))] == 1
        and is_question(entries[name])
    ]
    asked: list[JudgedQuery] = []
    for name in sorted(fit[:limit]):
        query_id = f"nl:{name}"
        query = Query(query_id, plain(entries[name].docstring.summary), (NATURAL_LANGUAGE,))
        related = (Judgement(query_id, link, RELATED) for link in chosen[name])
        asked.append(JudgedQuery(query, (Judgement(query_id, name, MEANT), *related)))
    return asked


def identifiers(
    entries: Mapping[str, Entry], chosen: Iterable[str], limit: int
) -> list[JudgedQuery]:
    """Ask for at most ``limit`` of the ``chosen`` objects by name, no text twice.

    Objects are drawn by the digest of their names, so what they begin with binds no two of them: an
    intent is a bare name, which namesakes share.
    """
    names = by_digest(chosen)
    bearers: dict[str, list[str]] = {}
    for name in sorted(names):
        bearers.setdefault(entries[name].bare, []).append(name)
    asked: dict[str, JudgedQuery] = {}
    for name in names:
        entry = entries[name]
        forms = [text for text in _forms(entry, bearers[entry.bare]) if text not in asked]
        if forms and len(asked) < limit:
            text = forms[int(of_bytes(f"form {name}".encode()), 16) % len(forms)]
            asked[text] = _by_name(name, text, bearers[entry.bare], exact="." in text)
    return sorted(asked.values(), key=lambda a: a.query.query_id)


def words(text: str) -> Sequence[str]:
    """Words in lower case, without punctuation."""
    return WORD.findall(text.lower())


def is_question(entry: Entry) -> bool:
    """Tell whether the summary could be a query without giving the object away."""
    text = plain(entry.docstring.summary)
    asked = words(text)
    if not FEWEST_WORDS <= len(asked) <= MOST_WORDS or UNFIT.search(text):
        return False
    said = f" {' '.join(asked)} "
    name = " ".join(words(" ".join(INSIDE_CAMEL.split(entry.bare))))
    joined = "".join(name.split())
    in_own_text = said in f" {' '.join(words(entry.docstring.body))} "
    return not (in_own_text or f" {name} " in said or f" {joined} " in said)


def _forms(entry: Entry, namesakes: Sequence[str]) -> list[str]:
    owner, _, bare = entry.name.rpartition(".")
    if entry.kind == "method":
        exact = f"{owner.rpartition('.')[2]}.{bare}"
    else:
        root, dot, rest = entry.namespace.partition(".")
        short = SHORT.get(entry.namespace) or f"{SHORT.get(root, root)}{dot}{rest}"
        exact = f"{short}.{bare}"
    if len(namesakes) > MOST_NAMESAKES:
        return [exact]
    from_memory = " ".join(part for part in INSIDE_CAMEL.split(bare) if part).lower()
    if "_" not in bare:
        from_memory = bare.lower()
    return list(dict.fromkeys([bare, exact, from_memory]))


def _by_name(name: str, text: str, namesakes: Sequence[str], *, exact: bool) -> JudgedQuery:
    query_id = f"id:{name}"
    graded = (
        Judgement(query_id, other, MEANT if other == name or not exact else RELATED)
        for other in namesakes
    )
    need = name.rpartition(".")[2].lower()
    return JudgedQuery(Query(query_id, text, (IDENTIFIER,), need), tuple(graded))
