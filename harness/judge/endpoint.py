"""A model behind an OpenAI-compatible endpoint as a judge."""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import httpx

from harness.core import digest
from harness.core.errors import BadFile, HarnessError
from harness.core.formats import json_of
from harness.core.printable import one_line
from harness.core.reading import Malformed, text_of
from harness.corpus import cells
from harness.judge import machine
from harness_engines.stacks.http import connection
from harness_engines.stacks.http.connection import seconds

CLOSE = 0.05
"""How far from 1 the probabilities may add up; models round them."""
QUOTED = 120
FENCE = re.compile(
    r"^[ \t]*(?:```|~~~)[^\n`]*\n(.*?)\n[ \t]*(?:```|~~~)[ \t]*$", re.DOTALL | re.MULTILINE
)
"""Code in an answer: many endpoints pass over ``response_format``."""


def request(
    model: str, instructions: str, seen: machine.PairToJudge, max_tokens: int
) -> dict[str, Any]:
    """Return the body of a request.

    The instructions are the system message, and never hold a word of a query or document. Those
    are values of one JSON object in the user message: data that cannot end early.
    """
    data = {"grades": seen.scale, "query": seen.query, "title": seen.title, "text": seen.text}
    return {
        "model": model,
        "messages": [
            {"role": "system", "content": instructions},
            {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
        ],
        "temperature": 0,
        "max_tokens": max_tokens,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "relevance", "strict": True, "schema": schema(seen.scale)},
        },
    }


def schema(scale: Sequence[int]) -> dict[str, Any]:
    """Return the JSON schema of an answer."""
    grades = [str(grade) for grade in scale]
    return {
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "probabilities": {
                "type": "object",
                "properties": {grade: {"type": "number"} for grade in grades},
                "required": grades,
                "additionalProperties": False,
            },
        },
        "required": ["reason", "probabilities"],
        "additionalProperties": False,
    }


def usage(body: object) -> tuple[int, int] | None:
    """Read how many tokens were sent and answered; None where it is not said."""
    match body:
        case {"usage": {"prompt_tokens": int(sent), "completion_tokens": int(answered)}}:
            if not isinstance(sent, bool) and not isinstance(answered, bool):
                return (sent, answered) if min(sent, answered) >= 0 else None
    return None


def read(body: Any, scale: Sequence[int]) -> machine.JudgeAnswer:  # noqa: ANN401  any JSON
    """Read an answer, whose cost is not in it."""
    try:
        choice, model = body["choices"][0], body["model"]
        content, ended = choice["message"].get("content"), choice.get("finish_reason")
    except (TypeError, KeyError, IndexError, AttributeError) as exc:
        raise Malformed(f"it is not a chat completion ({type(exc).__name__}: {exc})") from exc
    if ended == "length":
        raise Malformed("the answer is cut off at max_tokens")
    if not isinstance(content, str) or not content.strip():
        raise Malformed("the answer is empty")
    fenced = FENCE.findall(content)
    alone = len(fenced) == 1 and not content.lstrip().startswith("{")
    try:
        said = json_of(fenced[0] if alone else content)
    except Malformed as exc:
        raise Malformed(f"the answer is not JSON: {one_line(content, QUOTED)}") from exc
    if not isinstance(model, str) or not model:
        raise Malformed("the answer does not name its model")
    said = said if isinstance(said, Mapping) else {}
    reason = said.get("reason")
    note = one_line(reason, 500) if isinstance(reason, str) else ""
    probabilities = _probabilities(said.get("probabilities"), scale)
    return machine.JudgeAnswer(probabilities, one_line(model, QUOTED), note=note)


def _probabilities(found: object, scale: Sequence[int]) -> tuple[float, ...]:
    if not isinstance(found, Mapping):
        raise Malformed("the answer has no probabilities")
    by_grade = {cells.whole(name): value for name, value in found.items()}
    if len(by_grade) != len(found) or by_grade.keys() != set(scale):
        said, wanted = (", ".join(sorted(map(str, each))) for each in (found, scale))
        raise Malformed(f"the answer has the grades {one_line(said, QUOTED)}, not {wanted}")
    values = [by_grade[grade] for grade in scale]
    for one in values:
        if isinstance(one, bool) or not isinstance(one, int | float) or not 0 <= one <= 1:
            raise Malformed(f"{one_line(str(one), QUOTED)} is not a probability")
    total = math.fsum(values)
    if abs(total - 1) > CLOSE:
        raise Malformed(f"the probabilities add up to {total:g}, not to 1")
    return tuple(float(one) / total for one in values)


URL, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"
LOCAL = {"127.0.0.1", "::1", "localhost"}
MAX_BYTES = 4 << 20
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
MILLION = 1_000_000


class _Failed(Exception):
    """An attempt gave no answer; ``cost`` is what it cost, ``wait_s`` what the server asks for."""

    def __init__(self, why: str, cost: float = 0.0, wait_s: float | None = None) -> None:
        super().__init__(why)
        self.cost, self.wait_s = cost, wait_s


class Endpoint:
    """Sends a request a pair, whose answer is a distribution over grades."""

    def __init__(  # noqa: PLR0917  all of it is the endpoint
        self,
        settings: machine.EndpointSettings,
        instructions: str,
        client: httpx.Client,
        url: str,
        purse: machine.Purse,
        pace: machine.RequestPace,
    ) -> None:
        template = digest.of_bytes(instructions.encode())
        stated = settings.model_dump(include={"name", "model", "max_tokens"})
        self.name = settings.name
        self.identity = digest.of_json([stated, template, url])
        """Everything that an answer depends on beside the pair, as far as it is stated."""
        self.template = template
        """SHA-256 of the instructions."""
        self._settings, self._instructions = settings, instructions
        self._client, self._url, self._purse, self._pace = client, url, purse, pace

    def bound(self, seen: machine.PairToJudge) -> machine.CostBound:
        """Return what judging a pair costs; nothing is sent."""
        body = self._body(seen)
        sent = sum(len(one["content"]) for one in body["messages"]) / 4  # letters a token
        answered = self._settings.max_tokens
        # A token is a byte at least, so no request can have more of them than its body has bytes.
        most = len(json.dumps(body, ensure_ascii=False).encode())
        return machine.CostBound(sent, self._cost(sent, answered / 4), self._cost(most, answered))

    def judge(self, seen: machine.PairToJudge) -> machine.JudgeAnswer:
        """Judge a pair, again after what may pass, within the budget."""
        body, most = self._body(seen), self.bound(seen).most
        cost, problem = 0.0, ""
        for attempt in range(self._settings.retries + 1):
            self._pace.turn()
            self._purse.reserve(most)
            try:
                found = self._once(body, seen, most)
            except _Failed as exc:
                self._purse.correct(most, exc.cost)
                cost, problem = cost + exc.cost, str(exc)
                if attempt < self._settings.retries:
                    self._pace.pause(attempt + 1, exc.wait_s)
                continue
            self._purse.correct(most, found.cost)
            return replace(found, cost=cost + found.cost, retries=attempt)
        tried = self._settings.retries + 1
        raise machine.Unlabelled(f"the judge {self.name}: {problem} (attempts: {tried})")

    def _once(
        self, body: dict[str, Any], seen: machine.PairToJudge, most: float
    ) -> machine.JudgeAnswer:
        """Send a request once."""
        said = self._answered(body, most)
        used = usage(said)
        cost = most if used is None else self._cost(*used)
        try:
            return replace(read(said, seen.scale), cost=cost)
        except Malformed as exc:
            raise _Failed(str(exc), cost) from exc

    def _answered(self, body: dict[str, Any], most: float) -> Any:  # noqa: ANN401  any JSON
        try:
            with self._client.stream("POST", self._url, json=body) as response:
                content = _read(response, monotonic() + self._settings.timeout_s)
        except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
            raise _Failed(self._hidden(connection.of_transport(exc, self._url))) from exc
        except (httpx.HTTPError, Malformed) as exc:
            said = one_line(str(exc), connection.QUOTED) or type(exc).__name__
            raise _Failed(self._hidden(f"no whole answer came ({said})"), most) from exc
        status = response.status_code
        if not response.is_success:
            quoted = one_line(content.decode("utf-8", "replace"), connection.QUOTED)
            why = self._hidden(f"HTTP {status} from {self._url}: {quoted}")
            if status in PASSING:
                raise _Failed(why, wait_s=seconds(response.headers.get("retry-after", "")))
            raise HarnessError(
                f"the judge {self.name}: {why}. Check {URL}, {KEY} and model; no pair is lost, and"
                " the same command goes on"
            )
        try:
            return json_of(content.decode("utf-8"))
        except ValueError as exc:
            quoted = one_line(content.decode("utf-8", "replace"), QUOTED)
            raise _Failed(self._hidden(f"the answer is not JSON: {quoted}"), most) from exc

    def _body(self, seen: machine.PairToJudge) -> dict[str, Any]:
        of = self._settings
        return request(of.model, self._instructions, seen, of.max_tokens)

    def _cost(self, sent: float, answered: float) -> float:
        return (sent * self._settings.price_in + answered * self._settings.price_out) / MILLION

    def _hidden(self, text: str) -> str:
        """Take the key out of a text: a server may repeat it."""
        key = self._client.headers["authorization"].removeprefix("Bearer ")
        return text.replace(key, "***")


@contextmanager
def opened(path: Path, cache: Path) -> Iterator[machine.AnswerFolder]:
    """Open the judge of a file, with its answers and cost below ``cache``; nothing is sent yet."""
    settings = machine.JUDGES.read(path)
    folder = cache / settings.name
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
        judge = Endpoint(
            settings,
            _instructions(path.parent / settings.template),
            client,
            f"{url.rstrip('/')}/chat/completions",
            machine.Purse(folder / "spent.json", settings.budget),
            machine.RequestPace(settings.per_minute),
        )
        yield machine.AnswerFolder(folder, judge)


def _address() -> str:
    said = os.environ.get(URL, "")
    try:
        url = httpx.URL(said)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in {"http", "https"} or not url.host or url.userinfo or url.query:
        raise HarnessError(
            f"{URL} is not an address. Set it in the environment, for example"
            " http://127.0.0.1:11434/v1"
        )
    if url.scheme == "http" and url.host not in LOCAL:
        raise HarnessError(
            f"{URL}: {url.host} is another machine, and http would send it the key in the open."
            " Write https, or use a tunnel to 127.0.0.1"
        )
    return said


def _instructions(path: Path) -> str:
    try:
        text = text_of(path)
    except (OSError, Malformed) as exc:
        raise BadFile(path, str(exc), "Write the judge's instructions into it") from exc
    if not text.strip():
        raise BadFile(path, "it is empty", "Write the judge's instructions into it")
    return text


def _read(response: httpx.Response, until: float) -> bytes:
    found = bytearray()
    for part in response.iter_bytes():
        found += part
        if monotonic() > until:
            raise Malformed("it is not complete within timeout_s")
        if len(found) > MAX_BYTES:
            raise Malformed(f"it has over {MAX_BYTES >> 20} MiB")
    return bytes(found)
