"""Pages of the server: the front page, the judging form, and words in place of a page."""

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from starlette.responses import HTMLResponse

from harness.core import digest
from harness.core.digest import of_bytes
from harness.core.errors import HarnessError
from harness.core.reading import Malformed, text_of
from harness.corpus import judgements
from harness.corpus.judgements import JudgingPair, Overtaken, Pool
from harness.judge.judge import BACK, QUIT, SKIP
from harness.judge.pool import following, standing
from harness.report.html import TEMPLATES, environment, script_source
from harness.report.page import cards
from harness.serve.shelf import PAGES, PageFolder, Progress


def afterwards(pool: Path, harness: str) -> Mapping[str, str]:
    """Return commands that follow for a pool, by what they do; ``harness`` is as it is called."""
    words = {
        "Take the judgements into a data set that has these documents and queries:":
        ["judge", str(pool), "--merge", "NAME", "--by", "WHO"],
        "Or make a data set of them, with your own files in place of the first two:":
        ["import", "jsonl", "corpus.jsonl", "queries.jsonl", str(pool), "--name", "NAME"],
    }  # fmt: skip
    return {said: f"{harness} {shlex.join(command)}" for said, command in words.items()}


REMEMBERED = 50
"""How many pairs can be taken back."""
DIGITS = 9
"""Most digits of a number; a longer text names neither a grade nor a place."""
FORM_BYTES = 65_536
MAX_GUIDELINES_BYTES = 65_536
FIELDS = {"key", "pair", "was", "done"}


class BadForm(HarnessError):
    """What was sent is not what the form sends."""


@dataclass(frozen=True, slots=True)
class Sitting:
    """Where one who judges is."""

    key: str
    """The pool's key."""
    path: Path
    pool: Pool
    at: int
    """Place of the pair that is shown; the number of pairs behind the last one."""
    done: tuple[int, ...]
    """Places that were left before, the latest last."""
    notice: str = ""
    settles: str = ""
    """How far the pool has settled its gate, or why that is unknown; empty for other pools."""

    @property
    def pair(self) -> JudgingPair | None:
        return self.pool.pairs[self.at] if self.at < len(self.pool.pairs) else None

    @property
    def was(self) -> int | None:
        """Grade of the pair that is shown."""
        return self.pool.grades[self.at]

    @property
    def before(self) -> "Sitting | None":
        """Where one is after taking the last pair back; None where there is none."""
        if not self.done:
            return None
        return replace(self, at=self.done[-1], done=self.done[:-1], notice="")

    @property
    def word(self) -> str:
        """Name of the pair that is shown."""
        return word_for(self.pool.pairs[self.at])

    @property
    def guidelines(self) -> str:
        """What a grade means, as a file beside the pool says; empty without one, or for a link."""
        path = self.path.with_name(judgements.GUIDELINES)
        try:
            return "" if path.is_symlink() else text_of(path, most=MAX_GUIDELINES_BYTES)
        except (OSError, Malformed):
            return ""

    @property
    def judged(self) -> int:
        return len(self.pool.judgements)

    @property
    def trail(self) -> str:
        """``done`` as it stands in addresses and forms."""
        return ".".join(map(str, self.done))

    @property
    def url(self) -> str:
        where = urlencode({"at": self.at, "done": self.trail})
        return f"/judge/{quote(self.key)}?{where}"

    def after(self) -> "Sitting":
        """Go on to the next open pair."""
        following = (at for at in self.pool.open if at > self.at)
        at = next(following, len(self.pool.pairs))
        return replace(self, at=at, done=(*self.done, self.at)[-REMEMBERED:])


def sit(key: str, path: Path, asked: Mapping[str, str]) -> Sitting:
    """Sit down where the address says, at the first open pair where it says nothing."""
    found = judgements.read_pool(path)
    places = range(len(found.pairs))
    said = _number(asked.get("at", ""))
    first = min(found.open, default=len(places))
    at = first if said is None else min(said, len(places))
    settles = ""
    try:
        if not found.open and (seen := standing(path)):
            settles = seen.words
    except HarnessError as exc:
        settles = str(exc)
    return Sitting(key, path, found, at, _trail(asked.get("done", ""), places), "", settles)


def press(key: str, path: Path, body: bytes) -> Sitting:
    """Apply a key of the form; return the new position, with a notice if nothing is done."""
    sent = _fields(body)
    found = judgements.read_pool(path)
    at = _place(found, sent["pair"])
    here = Sitting(key, path, found, at, _trail(sent["done"], range(len(found.pairs))))
    pair, pressed, was = found.pairs[at], sent["key"], _number(sent["was"])
    if sent["was"] and was is None:
        raise BadForm(f"{sent['was']!r} is not a grade")
    if pressed == SKIP:
        return here.after()
    if pressed == BACK:
        return replace(here, pool=judgements.regrade(path, pair, was, None))
    grade = _number(pressed)
    if grade is None or grade not in pair.scale:
        raise BadForm(f"{pressed!r} is not a key")
    graded = judgements.regrade(path, pair, was, grade)
    with suppress(HarnessError):  # the page says why, if its gate has no more pairs
        if not graded.open and (seen := following(path)):
            graded = seen.pool
    return replace(here, pool=graded).after()


def again(key: str, path: Path, body: bytes, why: Overtaken) -> Sitting:
    """Show the pair again whose grade was not written, as it is judged by now, and say why."""
    sent = _fields(body)
    found = judgements.read_pool(path)
    done = _trail(sent["done"], range(len(found.pairs)))
    return Sitting(key, path, found, _place(found, sent["pair"]), done, str(why))


def _fields(body: bytes) -> Mapping[str, str]:
    try:
        found = dict(
            parse_qsl(
                body.decode("ascii"), keep_blank_values=True, strict_parsing=True,
                errors="strict", max_num_fields=len(FIELDS),
            )
        )  # fmt: skip
    except ValueError as exc:
        raise BadForm("it cannot be read") from exc
    if set(found) != FIELDS:
        raise BadForm(f"its fields are {', '.join(sorted(FIELDS))}")
    return found


def word_for(pair: JudgingPair) -> str:
    """Name a pair in a form, whatever characters its ids have."""
    return digest.of_json([pair.query_id, pair.doc_id])


def _place(pool: Pool, word: str) -> int:
    """Find a pair where it stands now; lines may have been moved since it was shown."""
    found = (at for at, pair in enumerate(pool.pairs) if word_for(pair) == word)
    at = next(found, None)
    if at is None:
        raise BadForm("the pair is not in this pool any more; begin again from the front page")
    return at


def _trail(text: str, places: range) -> tuple[int, ...]:
    """Read places with dots between; what is none is left out."""
    found = map(_number, text.split(".")[-REMEMBERED:])
    return tuple(at for at in found if at is not None and at in places)


def _number(text: str) -> int | None:
    return int(text) if len(text) <= DIGITS and text.isdecimal() else None


OWN = Path(__file__).with_name("templates")
REPORTS_RUN = ("page.js", "explore.js")
"""Scripts of the pages of a report."""
CONFLICT = 409


@cache
def _environment() -> Environment:
    made = environment().overlay(loader=FileSystemLoader([OWN, TEMPLATES]))
    made.filters = {
        **made.filters, "address": quote, "called": lambda sheet: PAGES.get(sheet.name, sheet.name),
        "tone": cards.tone, "answer": cards.answer, "counts": cards.counts,
    }  # fmt: skip
    return made


def listing(found: tuple[PageFolder, ...], pools: tuple[Progress, ...]) -> tuple[str, str]:
    """Return the list of the front page, and a word that is another one whenever the list is."""
    text = _environment().get_template("list.html.j2").render(entries=found, pools=pools)
    return text, of_bytes(text.encode())


def front(found: tuple[PageFolder, ...], pools: tuple[Progress, ...]) -> HTMLResponse:
    """Return the front page."""
    text, stamp = listing(found, pools)
    body = Markup(text)  # noqa: S704  our own template, its texts are escaped
    return _page("front", "front.js", listed=body, stamp=stamp)


def judging(sitting: Sitting, harness: str) -> HTMLResponse:
    """Return the form for the pair that is shown; 409 where it is shown for a second time.

    ``harness`` is the program as the reader calls it.
    """
    status = CONFLICT if sitting.notice else 200
    advice = {} if sitting.pool.open else afterwards(sitting.path, harness)
    keys = {"skip": SKIP, "back": BACK, "quit": QUIT}
    return _page("judge", "judge.js", status, sitting=sitting, keys=keys, advice=advice)


def refused(status: int, title: str, text: str) -> HTMLResponse:
    """Draw, in place of a page, why it is absent and what to do."""
    return _page("word", "", status, title=title, text=text, go="")


def welcome() -> HTMLResponse:
    """Go on to the front page.

    The page itself moves on; it is not a redirection. If a page of another site opened the address,
    a browser would not send a strict cookie along a redirection.
    """
    return _page("word", "", title="The pages are open", text="", go="/")


def of_a_report() -> str:
    """Return what a page of a report may do here at most, whatever its own policy says.

    Only the scripts that this program writes into such pages run. A foreign script could send
    requests and judge in the name of the person who opened the page.
    """
    own = " ".join(script_source((TEMPLATES / name).read_text("utf-8")) for name in REPORTS_RUN)
    return (
        f"script-src {own}; object-src 'none'; frame-src 'none'; connect-src 'none';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _page(name: str, script: str, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    style += (OWN / "serve.css").read_text(encoding="utf-8")
    run = (OWN / script).read_text(encoding="utf-8") if script else ""
    text = (
        _environment()
        .get_template(f"{name}.html.j2")
        .render(style=Markup(style), script=Markup(run), **values)  # noqa: S704  our own files
    )
    policy = (
        f"default-src 'none'; style-src {script_source(style)}; script-src {script_source(run)};"
        " connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'none'"
    )
    return HTMLResponse(text, status, {"content-security-policy": policy})
