"""The table ``[settings]`` of an arm over HTTP: requests, headers and expressions."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import parse_qsl, urlsplit

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import AfterValidator, Field, field_validator, model_validator

from harness.core.errors import IndexNotReady
from harness.core.formats import json_of
from harness.core.printable import one_line
from harness.core.records import Scalar
from harness_engines import contract
from harness_engines.contract import StackSettings

Expression = Callable[[Any], Any]
"""Returns what stands there, or None."""


class NoAnswer(Exception):
    """The server did not answer as a search does; the query has failed."""


class MalformedAnswer(NoAnswer):
    """What came is not an answer as the arm's file describes it."""


def compiled(text: str) -> Expression:
    """Compile an expression; the name of a member alone is looked up without an interpreter."""
    try:
        parsed = jmespath.compile(text)
    except JMESPathError as exc:
        raise ValueError(f"{text!r} is not JMESPath ({one_line(str(exc))})") from exc
    if parsed.parsed["type"] == "field":
        name = parsed.parsed["value"]
        return lambda tree: tree.get(name) if isinstance(tree, dict) else None

    def search(tree: Any) -> Any:  # noqa: ANN401  any JSON
        try:
            return parsed.search(tree)
        except JMESPathError as exc:
            raise MalformedAnswer(f"{text!r} fails: {one_line(str(exc))}") from exc

    return search


PLACE = re.compile(r"\$\{([^}]*)\}")
"""A variable of the environment in a header; elsewhere, what a query gives."""
HEADER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SECRET = re.compile(
    r"(?i)auth|cookie|pass|secret|token|credential|(?:^|[-_.])(?:api)?-?key$|apikey"
)
"""Names of headers and of parts of an address whose values are secrets."""
CREDENTIALS = re.compile(r"(?i)^(?:basic|bearer|apikey|digest|token|aws4-\S+)\s+\S")
HIDDEN = "***"


def check(headers: dict[str, str]) -> dict[str, str]:
    """Refuse a secret that is written out, and a variable that can have no name."""
    for name, value in headers.items():
        bare = PLACE.sub("", value)
        secret = SECRET.search(name) or CREDENTIALS.search(value)
        if secret and bare == value:
            raise ValueError(
                f"{name} is a secret written into the file. Put it into a variable of the"
                f' environment and write {name} = "Bearer ${{SEARCH_TOKEN}}", or as your server'
                " wants it"
            )
        for variable in PLACE.findall(value):
            if not HEADER_NAME.fullmatch(variable):
                raise ValueError(f"{name}: ${{{variable}}} is not the name of a variable")
    return headers


@dataclass(frozen=True, slots=True)
class Headers:
    """Headers with their secrets."""

    values: Mapping[str, str]
    secrets: tuple[str, ...]

    def hide(self, text: str) -> str:
        """Return ``text`` without the secrets: a server may repeat what it was sent."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text


def filled(headers: Mapping[str, str]) -> Headers:
    """Replace the variables of the environment by their values."""
    variables = sorted({one for text in headers.values() for one in PLACE.findall(text)})
    if variables and not contract.allowed():
        raise IndexNotReady(
            f"the arm sends the environment variable {variables[0]} to a server, and"
            f" {contract.NO_CODE} is set. Read its url, and run without --no-code if you trust it"
        )
    secrets = {variable: os.environ.get(variable, "") for variable in variables}
    for variable, value in secrets.items():
        if not value:
            raise IndexNotReady(
                f"the environment variable {variable} is not set, and a header needs it."
                f" Run: export {variable}=..."
            )
        if not (value.isascii() and value.isprintable()):
            raise IndexNotReady(
                f"the environment variable {variable} has a character that no header can carry,"
                " such as a line end. Set it again"
            )
    values = {name: PLACE.sub(lambda one: secrets[one[1]], text) for name, text in headers.items()}
    return Headers(values, tuple(sorted(secrets.values(), key=len, reverse=True)))


PLACE_NAME = re.compile(r"text|k|params\.[A-Za-z_][\w-]*")
QUOTED = ":json"
ABSENT: Final = object()
"""A value that the query does not give."""


def places(tree: object) -> frozenset[str]:
    """Name what a template takes: ``text``, ``k``, ``params.NAME``."""
    if isinstance(tree, dict):
        for key in tree:
            if PLACE.search(str(key)):
                raise ValueError(f"{key!r} is a key: a place can only be a value")
        tree = [*tree.values()]
    if isinstance(tree, list):
        return frozenset().union(*map(places, tree))
    named = PLACE.findall(tree) if isinstance(tree, str) else []
    for one in named:
        name = one.removesuffix(QUOTED)
        if not PLACE_NAME.fullmatch(name):
            known = "Known places: ${text}, ${k} and ${params.NAME}"
            raise ValueError(f"${{{one}}} is unknown. {known}")
        if tree != f"${{{one}}}" and not one.endswith(QUOTED):
            raise ValueError(
                f"${{{one}}} stands within a longer text, where a query could end its place."
                f" Let it be the whole value, or write ${{{name}{QUOTED}}} for a quoted string"
            )
    return frozenset(one.removesuffix(QUOTED) for one in named)


def fill(template: Mapping[str, Any], values: Mapping[str, Scalar]) -> dict[str, Any]:
    """Replace the places of a tree of JSON; what lacks its value is left out."""
    found = {key: _filled(value, values) for key, value in template.items()}
    return {key: value for key, value in found.items() if value is not ABSENT}


def _filled(tree: Any, values: Mapping[str, Scalar]) -> Any:  # noqa: ANN401  any JSON
    if isinstance(tree, dict):
        found = {key: _filled(value, values) for key, value in tree.items()}
        return ABSENT if ABSENT in found.values() else found
    if isinstance(tree, list):
        return [one for item in tree if (one := _filled(item, values)) is not ABSENT]
    if not isinstance(tree, str):
        return tree
    named = PLACE.findall(tree)
    if any(values.get(one.removesuffix(QUOTED)) is None for one in named):
        return ABSENT
    if len(named) == 1 and tree == f"${{{named[0]}}}" and not named[0].endswith(QUOTED):
        return values[named[0]]

    def quoted(one: re.Match[str]) -> str:
        return json.dumps(values[one[1].removesuffix(QUOTED)], ensure_ascii=False)

    return PLACE.sub(quoted, tree)


Method = Literal["GET", "POST", "PUT"]


def address(url: str) -> str:
    """Check an address that a file names."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise ValueError(f"{url!r} is not an address ({exc})") from exc
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise ValueError(f"{url!r} is not an address. Write http://HOST:PORT/PATH")
    if parts.username is not None or parts.password is not None:
        raise ValueError("an address with a user or a password keeps a secret. Use a header")
    if "${" in url:
        raise ValueError("an address has no places. Put ${text} and ${k} into query or body")
    for name, _ in parse_qsl(parts.query):
        _no_secret(name)
    return url


def _no_secret(name: str) -> None:
    if SECRET.search(name):
        raise ValueError(f"{name} looks like a secret in an address, which is logged. Use a header")


def _tree(body: str) -> dict[str, Any]:
    if not body:
        return {}
    try:
        found = json_of(body)
    except ValueError as exc:
        raise ValueError(f'not JSON: {exc}. Places stand in quotes: "${{text}}", "${{k}}"') from exc
    if not isinstance(found, dict):
        raise ValueError(f"is a {type(found).__name__}. Write a JSON object")  # noqa: TRY004  pydantic reads ValueError
    return found


def _expression(text: str) -> str:
    if text:
        compiled(text)
    return text


Url = Annotated[str, AfterValidator(address)]
Jmespath = Annotated[str, AfterValidator(_expression)]
"""An expression; an empty one names nothing."""


class Probe(StackSettings):
    """One request that says who answers."""

    url: Url
    method: Method = "GET"
    body: str = ""
    version: Jmespath = ""
    documents: Jmespath = ""
    generation: Jmespath = ""

    @field_validator("body")
    @classmethod
    def _fixed(cls, body: str) -> str:
        if places(_tree(body)):
            raise ValueError("a probe has no places: it is sent as it stands")
        return body

    @model_validator(mode="after")
    def _tells(self) -> Self:
        if not (self.version or self.documents or self.generation):
            raise ValueError("a probe reads version, documents or generation. Name one")
        return self


class HttpSettings(StackSettings):
    """Where the engine is, what is sent, what is read, and who is meant to answer."""

    url: Url
    method: Method = "POST"
    headers: Annotated[dict[str, str], AfterValidator(check)] = Field(default_factory=dict)
    query: dict[str, str | int | float | bool | list[str]] = Field(default_factory=dict)
    body: str = ""
    hits: Jmespath = Field(min_length=1)
    id: Jmespath = Field(min_length=1)
    score: Jmespath = ""
    incomplete: Jmespath = ""
    generation: Jmespath = ""
    probe: list[Probe] = Field(default_factory=list)
    probe_every_s: float = Field(default=10.0, gt=0)
    unknown_ids: Literal["fail", "keep"] = "fail"
    verify: bool = True
    ca_file: str = ""
    timeout_s: float = Field(default=10.0, gt=0, le=86_400)
    connections: int = Field(default=16, ge=1, le=1000)
    retries: int = Field(default=2, ge=0, le=10)
    rate_per_s: float = Field(default=0.0, ge=0)

    @field_validator("query", "body")
    @classmethod
    def _have_places(cls, given: Any) -> Any:  # noqa: ANN401  a body, or the values of a query
        tree = _tree(given) if isinstance(given, str) else given
        for name in tree if tree is given else ():
            _no_secret(name)
        places(tree)
        marks: dict[str, Scalar] = {"text": "\ue000", "k": "\ue001"}
        named = [one.removesuffix(QUOTED) for one in PLACE.findall(json.dumps(tree))]
        left = json.dumps(fill(tree, marks), ensure_ascii=False)
        for name, mark in marks.items():
            if left.count(str(mark)) != named.count(name):
                raise ValueError(
                    f"a query without one of the params would not send ${{{name}}} either."
                    " Put the param into an item of a list, or into a table of its own"
                )
        return given

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if "text" not in self.places:
            raise ValueError("neither query nor body has ${text}, so it is never sent")
        if self.method == "GET" and self.body:
            raise ValueError('method is "GET" and there is a body: write method = "POST"')
        if self.generation and not any(one.generation for one in self.probe):
            raise ValueError("generation needs a probe that reads generation too")
        return self

    @property
    def urls(self) -> tuple[str, ...]:
        """All addresses that requests go to."""
        return (self.url, *(probe.url for probe in self.probe))

    @property
    def places(self) -> frozenset[str]:
        """What is sent of a query."""
        return places(self.query) | places(self.tree)

    @property
    def tree(self) -> dict[str, Any]:
        """The body, parsed."""
        return _tree(self.body)
