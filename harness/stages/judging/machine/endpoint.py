"""A model behind an OpenAI-compatible endpoint as a judge.

Address and key come from the environment, OPENAI_BASE_URL and OPENAI_API_KEY, and stand in no file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import httpx

from engines.stacks.http import failures
from engines.stacks.http.connection import seconds
from harness.core import digest
from harness.core.errors import BadFile, HarnessError
from harness.core.formats import json_of
from harness.core.printable import one_line
from harness.core.reading import Malformed, text_of
from harness.stages.judging.machine import reply
from harness.stages.judging.machine.protocol import Answer, Bound, Seen, Unlabelled
from harness.stages.judging.machine.purse import Pace, Purse
from harness.stages.judging.machine.settings import EndpointSettings

URL, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
LOCAL = {"127.0.0.1", "::1", "localhost"}
MAX_BYTES = 4 << 20
"""Of an answer."""
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed."""
LETTERS_A_TOKEN = 4
"""About, in English text."""
MILLION = 1_000_000


class _Failed(Exception):
    """An attempt gave no answer; ``cost`` is what it cost, ``wait_s`` what the server asks for."""

    def __init__(self, why: str, cost: float = 0.0, wait_s: float | None = None) -> None:
        super().__init__(why)
        self.cost, self.wait_s = cost, wait_s


class Template(NamedTuple):
    """The instructions, and their digest."""

    text: str
    sha256: str


@dataclass(frozen=True)
class Endpoint:
    """Sends a pair a request."""

    settings: EndpointSettings
    instructions: Template
    client: httpx.Client
    url: str
    purse: Purse
    pace: Pace

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def template(self) -> str:
        return self.instructions.sha256

    @cached_property
    def identity(self) -> str:
        stated = self.settings.model_dump(include={"name", "model", "max_tokens"})
        return digest.of_json([stated, self.template, self.url])

    def bound(self, seen: Seen) -> Bound:
        body = self._body(seen)
        letters = sum(len(one["content"]) for one in body["messages"])
        sent = letters / LETTERS_A_TOKEN
        answered = self.settings.max_tokens
        # A token is a byte at least, so no request can have more of them than its body has bytes.
        most = len(json.dumps(body, ensure_ascii=False).encode())
        return Bound(sent, self._cost(sent, answered / 4), self._cost(most, answered))

    def judge(self, seen: Seen) -> Answer:
        body, most = self._body(seen), self.bound(seen).most
        cost, problem = 0.0, ""
        for attempt in range(self.settings.retries + 1):
            self.pace.turn()
            self.purse.reserve(most)
            try:
                found, paid = self._once(body, seen, most)
            except _Failed as exc:
                self.purse.correct(most, exc.cost)
                cost, problem = cost + exc.cost, str(exc)
                if attempt < self.settings.retries:
                    self.pace.pause(attempt + 1, exc.wait_s)
                continue
            self.purse.correct(most, paid)
            return Answer(found.probabilities, found.model, cost + paid, found.note, attempt)
        tried = self.settings.retries + 1
        raise Unlabelled(f"the judge {self.name}: {problem} (attempts: {tried})")

    def _once(self, body: dict[str, Any], seen: Seen, most: float) -> tuple[reply.Reply, float]:
        """Send a request once.

        Raises:
            _Failed: no valid answer came, and the next attempt may bring one.
            HarnessError: the endpoint refuses such requests.
        """
        said = self._answered(body, most)
        used = reply.usage(said)
        cost = most if used is None else self._cost(used.sent, used.answered)
        try:
            return reply.read(said, seen.scale), cost
        except Malformed as exc:
            raise _Failed(str(exc), cost) from exc

    def _answered(self, body: dict[str, Any], most: float) -> Any:  # noqa: ANN401  any JSON
        try:
            with self.client.stream("POST", self.url, json=body) as response:
                content = _read(response, monotonic() + self.settings.timeout_s)
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            raise _Failed(self._hidden(failures.of_transport(exc, self.url))) from exc
        except (httpx.HTTPError, Malformed) as exc:
            said = one_line(str(exc), failures.QUOTED) or type(exc).__name__
            raise _Failed(self._hidden(f"no whole answer came ({said})"), most) from exc
        status = response.status_code
        if not response.is_success:
            quoted = one_line(content.decode("utf-8", "replace"), failures.QUOTED)
            why = self._hidden(f"HTTP {status} from {self.url}: {quoted}")
            if status in PASSING:
                raise _Failed(why, wait_s=seconds(response.headers.get("retry-after", "")))
            raise HarnessError(
                f"the judge {self.name}: {why}. Check {URL}, {KEY} and model; no pair is lost, and"
                " the same command goes on"
            )
        try:
            return json_of(content.decode("utf-8"))
        except ValueError as exc:
            quoted = one_line(content.decode("utf-8", "replace"), reply.QUOTED)
            raise _Failed(self._hidden(f"the answer is not JSON: {quoted}"), most) from exc

    def _body(self, seen: Seen) -> dict[str, Any]:
        of = self.settings
        return reply.request(of.model, self.instructions.text, seen, of.max_tokens)

    def _cost(self, sent: float, answered: float) -> float:
        return (sent * self.settings.price_in + answered * self.settings.price_out) / MILLION

    def _hidden(self, text: str) -> str:
        """Take the key out of a text: a server may repeat it."""
        key = self.client.headers["authorization"].removeprefix("Bearer ")
        return text.replace(key, "***")


@contextmanager
def opened(settings: EndpointSettings, beside: Path, kept: Path) -> Iterator[Endpoint]:
    """Open a judge; nothing is sent yet. ``kept`` is the folder of what it answered and cost.

    Raises:
        BadFile: the template cannot be read, or is empty.
        HarnessError: the environment names no address or key, or an address without TLS.
    """
    url, key = _address(), os.environ.get(KEY, "")
    if not key.strip() or not key.isascii() or not key.isprintable():
        raise HarnessError(f"{KEY} is not set, or not a key. Set it in the environment")
    with httpx.Client(
        headers={"authorization": f"Bearer {key}"},
        timeout=settings.timeout_s,
        trust_env=False,
        follow_redirects=False,
        verify=url.startswith("https:"),
    ) as client:
        yield Endpoint(
            settings,
            _instructions(beside / settings.template),
            client,
            f"{url.rstrip('/')}/chat/completions",
            Purse(kept / "spent.json", settings.budget),
            Pace(settings.per_minute),
        )


def _address() -> str:
    """Read the address.

    Raises:
        HarnessError: it is not one, or the key would leave this machine without TLS.
    """
    said = os.environ.get(URL, "")
    try:
        url = httpx.URL(said)
        host = url.host
    except (httpx.InvalidURL, UnicodeError):
        url, host = httpx.URL(""), ""
    if url.scheme not in {"http", "https"} or not host or url.userinfo or url.query:
        raise HarnessError(
            f"{URL} is not an address. Set it in the environment, for example"
            " http://127.0.0.1:11434/v1"
        )
    if url.scheme == "http" and host not in LOCAL:
        raise HarnessError(
            f"{URL}: {host} is another machine, and http would send it the key in the open."
            " Write https, or use a tunnel to 127.0.0.1"
        )
    return said


def _instructions(path: Path) -> Template:
    try:
        text = text_of(path)
    except FileNotFoundError as exc:
        raise BadFile(path, "missing file", "Write the judge's instructions into it") from exc
    except (OSError, Malformed) as exc:
        raise BadFile(path, str(exc), "Write the judge's instructions into it") from exc
    if not text.strip():
        raise BadFile(path, "it is empty", "Write the judge's instructions into it")
    return Template(text, digest.of_bytes(text.encode()))


def _read(response: httpx.Response, until: float) -> bytes:
    found = bytearray()
    for part in response.iter_bytes():
        found += part
        if monotonic() > until:
            raise Malformed("it is not complete within timeout_s")
        if len(found) > MAX_BYTES:
            raise Malformed(f"it has over {MAX_BYTES >> 20} MiB")
    return bytes(found)
