"""The table ``[settings]`` of an arm over HTTP, checked before anything is sent."""

from __future__ import annotations

from typing import Any, Literal, Self
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, field_validator, model_validator

from engines.contract.settings import StackSettings
from engines.stacks.http import headers
from engines.stacks.http.expression import compiled
from engines.stacks.http.template import Template, places
from harness.core.formats import json_of

Method = Literal["GET", "POST", "PUT"]
QueryValue = str | int | float | bool | list[str]


def _address(url: str) -> str:
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
    if headers.SECRET.search(name):
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


class Probe(StackSettings):
    """One request that says who answers."""

    url: str
    method: Method = "GET"
    body: str = ""
    """JSON without places."""
    version: str = ""
    documents: str = ""
    generation: str = ""
    """JMESPath of the software's version, the number of documents, and what moves with the index.
    Empty where this request does not tell."""

    _url = field_validator("url")(_address)

    @field_validator("body")
    @classmethod
    def _fixed(cls, body: str) -> str:
        if places(_tree(body)):
            raise ValueError("a probe has no places: it is sent as it stands")
        return body

    @field_validator("version", "documents", "generation")
    @classmethod
    def _compiles(cls, text: str) -> str:
        if text:
            compiled(text)
        return text

    @model_validator(mode="after")
    def _tells(self) -> Self:
        if not (self.version or self.documents or self.generation):
            raise ValueError("a probe reads version, documents or generation. Name one")
        return self


class Settings(StackSettings):
    """Where the engine is, what is sent, what is read, and who is meant to answer."""

    url: str
    method: Method = "POST"
    headers: dict[str, str] = Field(default_factory=dict)
    """``${NAME}`` stands for a variable of the environment."""
    query: dict[str, QueryValue] = Field(default_factory=dict)
    """Of the address, percent-encoded; values may have places."""
    body: str = ""
    """A JSON object; its values may have places. Empty sends none."""
    hits: str
    """JMESPath of the list of hits in the answer; no match is a failed query."""
    id: str
    """JMESPath of the document's id within a hit."""
    score: str = ""
    """JMESPath of the score within a hit; empty where the order alone counts."""
    total: str = ""
    """JMESPath of the number of all matches; read by ``harness arm check``."""
    incomplete: str = ""
    """JMESPath; where it is true, the answer is partial and the query has failed."""
    generation: str = ""
    """JMESPath in each answer of what the probe reads as generation; empty where it is not told."""
    probe: list[Probe] = Field(min_length=1)
    probe_every_s: float = Field(default=10.0, gt=0)
    """Seconds between two probes while queries are run."""
    unknown_ids: Literal["fail", "keep"] = "fail"
    """What becomes of a hit that the data set does not have."""
    verify: bool = True
    ca_file: str = ""
    """PEM file of the authority that signed the server's certificate; empty takes the usual."""
    timeout_s: float = Field(gt=0, le=86_400)
    """For a query from first byte to last, with all its attempts."""
    connections: int = Field(default=16, ge=1, le=1000)
    retries: int = Field(default=2, ge=0, le=10)
    rate_per_s: float = Field(default=0.0, ge=0)
    """Requests a second at most; 0 means no limit. Waiting is part of the latency."""

    _url = field_validator("url")(_address)

    @field_validator("headers")
    @classmethod
    def _no_secrets(cls, given: dict[str, str]) -> dict[str, str]:
        headers.check(given)
        return given

    @field_validator("query")
    @classmethod
    def _query_places(cls, given: dict[str, QueryValue]) -> dict[str, QueryValue]:
        for name in given:
            _no_secret(name)
        places(given)
        Template(given).check_params_apart()
        return given

    @field_validator("body")
    @classmethod
    def _body_places(cls, body: str) -> str:
        tree = _tree(body)
        places(tree)
        Template(tree).check_params_apart()
        return body

    @field_validator("hits", "id", "score", "total", "incomplete", "generation")
    @classmethod
    def _compiles(cls, text: str) -> str:
        if text:
            compiled(text)
        return text

    @field_validator("hits", "id")
    @classmethod
    def _said(cls, text: str) -> str:
        if not text:
            raise ValueError("is empty. Write a JMESPath expression")
        return text

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for name in ("text", "k"):
            if name not in self.places:
                raise ValueError(f"neither query nor body has ${{{name}}}, so it is never sent")
        if self.method == "GET" and self.body:
            raise ValueError('method is "GET" and there is a body: write method = "POST"')
        if self.generation and not any(one.generation for one in self.probe):
            raise ValueError("generation needs a probe that reads generation too")
        if self.ca_file and not self.verify:
            raise ValueError("ca_file is not used where verify is false. Leave one of them out")
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
