"""An engine's own TOML file as the reading of mirrored requests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from harness.core.engine import Answer, Hit, Manifest
from harness.core.errors import BadPolicy
from harness.core.files import scratch
from harness.core.records import Scalar
from harness.shadow.server import AnswerTable, Bounds, Reading, RequestTable, Unreadable, unit
from harness_engines import registry
from harness_engines.stacks.http.arm import HttpEngine, Reader
from harness_engines.stacks.http.connection import NoAnswer
from harness_engines.stacks.http.settings import PLACE, Settings, Template, filled

K_ABSENT = 10
"""Hits that a request asks for where it does not say."""
REQUEST_BYTES, ANSWER_BYTES = 1 << 16, 4 << 20


class ArmReading(Reading):
    """Reads requests at the places of the arm's template, and answers as the arm does."""

    settings: Settings

    def answer_of(self, answer: Any, manifest: Manifest, k: int) -> Answer:  # noqa: ANN401  any JSON
        try:
            found = self._reader.read(answer, k)
        except NoAnswer as exc:
            raise Unreadable(str(exc)) from None
        hits = tuple(
            Hit(hit.doc_id, 1 / at, 1 / at)
            if hit.score is None
            else Hit(hit.doc_id, unit(hit.score), hit.score)
            for at, hit in enumerate(found.hits, start=1)
        )
        return Answer(hits, manifest.fingerprint)

    def generation_of(self, answer: Any) -> int | str:  # noqa: ANN401  any JSON
        if not self.settings.generation:
            return ""
        try:
            found = self._reader.generation_of(answer)
        except NoAnswer as exc:
            raise Unreadable(str(exc)) from None
        if not isinstance(found, int | str) or isinstance(found, bool) or found == "":
            raise Unreadable(f"the answer's generation is {found!r}, no number and no text")
        return found

    def headers(self) -> Mapping[str, str]:
        return filled(self.settings.headers).values

    def translated(self, text: str, k: int) -> Mapping[str, Scalar]:
        given, url = self.settings, urlsplit(self.settings.url)
        values: dict[str, Scalar] = {"text": text, "k": k}
        query = urlencode(Template(given.query).filled(values))
        query = "&".join(filter(None, (url.query, query)))
        body = json.dumps(Template(given.tree).filled(values)) if given.body else ""
        return {
            "method": given.method,
            "target": f"{url.path or '/'}?{query}" if query else url.path or "/",
            "type": "application/json" if body else "",
            "body": body,
        }

    @property
    def _reader(self) -> Reader:
        return _compiled(self.settings.model_dump_json())


def of_arm(path: Path) -> ArmReading:
    """Derive a proxy's reading from the file of an engine over HTTP."""
    with scratch() as cache:
        engine = registry.load(str(path), cache).engine
    if not isinstance(engine, HttpEngine):
        raise BadPolicy(
            path, "is not of the stack http", "Give a file as examples/shadow/http.toml"
        )
    given = engine.settings
    places = dict(_places({"query": given.query, "body": given.tree}, ""))
    for name in ("text", "k"):
        if name not in places:
            raise BadPolicy(
                path,
                f"${{{name}}} is part of a longer value, so it cannot be read from a request",
                "Let it be a whole value, or write a file as examples/shadow/http.toml",
            )
    generation = "/" if given.generation else ""  # whether it is told; ArmReading reads it
    return ArmReading(
        request=RequestTable(
            compared=[f"{given.method} {urlsplit(given.url).path or '/'}"],
            text=places["text"],
            k=places["k"],
            k_absent=K_ABSENT,
        ),
        answer=AnswerTable(hits="", id="", score="", degraded="", generation=generation),
        bounds=Bounds(
            request_bytes=REQUEST_BYTES, answer_bytes=ANSWER_BYTES, timeout_s=given.timeout_s
        ),
        settings=given,
    )


def _places(tree: object, at: str) -> Iterator[tuple[str, str]]:
    """Yield the places that are whole values, as pointers (RFC 6901)."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _places(value, f"{at}/{str(key).replace('~', '~0').replace('/', '~1')}")
    elif isinstance(tree, list):
        for place, value in enumerate(tree):
            yield from _places(value, f"{at}/{place}")
    elif isinstance(tree, str) and (match := PLACE.fullmatch(tree)):
        yield match[1], at


@lru_cache(maxsize=4)
def _compiled(settings: str) -> Reader:
    return Reader(Settings.model_validate_json(settings))
