"""A search server as an arm: asked over HTTP, held to the version that it tells of itself.

What is the server's own stands in ``asked`` and in the two places that read its JSON; change
those for yours. docs/how-to/engine-elsewhere.md says what to look after.
"""  # noqa: INP001  an arm names this file by its path; it belongs to no package

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from pydantic import Field

from harness.core.engine import Answer, Engine, Hit, Manifest, Searcher
from harness.core.errors import IndexNotReady
from harness.core.records import Document
from harness_engines import contract
from harness_engines.contract import StackSettings

NAME = "over-http"


class Settings(StackSettings):
    """The keys of ``[settings]`` in over_http.toml."""

    url: str
    timeout_s: float = Field(gt=0)


class OverHttp(NamedTuple):
    """Asks a server that has its documents already."""

    settings: Settings

    def build(self, documents: Iterable[Document], index: Path) -> Manifest:
        """Send nothing; note which documents are meant, and which version answers."""
        with self._client() as client:
            return contract.record(index, documents, _pass_by, **self._identity(client))

    @contextmanager
    def open(self, index: Path) -> Iterator[Searcher]:
        """Connect, and refuse a server that is another one than when it was indexed."""
        made = contract.read(index)
        with self._client() as client:
            contract.check_made_by(index, made, **self._identity(client))
            yield HttpSearcher(made, client)

    def _client(self) -> httpx.Client:
        given = self.settings
        return httpx.Client(base_url=given.url, timeout=given.timeout_s, trust_env=False)

    def _identity(self, client: httpx.Client) -> dict[str, Any]:
        try:
            version = str(asked(client, "/version")["version"])
        except (httpx.HTTPError, ValueError, KeyError) as exc:
            raise IndexNotReady(f"{self.settings.url}: {exc!r}. Start the server") from exc
        return {"engine": NAME, "version": version, "settings": self.settings.model_dump()}


class HttpSearcher(NamedTuple):
    """An open connection."""

    manifest: Manifest
    client: httpx.Client

    def search(self, text: str, k: int) -> Answer:
        """Ask, and keep the server's order; whatever goes wrong is a query that failed."""
        found = asked(self.client, "/search", q=text, k=k)
        hits = (
            Hit(str(hit["id"]), 1 / rank, float(hit["score"]))
            for rank, hit in enumerate(found["hits"][:k], start=1)
        )
        version = str(found["version"])
        same = version == self.manifest.version
        return Answer(tuple(hits), self.manifest.fingerprint if same else f"{NAME} {version}")


def asked(client: httpx.Client, path: str, **params: str | int) -> Any:  # noqa: ANN401  whatever the server says
    """Send one question and read the JSON of the answer; any status but 200 raises."""
    return client.get(path, params=params).raise_for_status().json()


def engine(settings: Mapping[str, Any], cache: Path) -> Engine:  # noqa: ARG001  keeps nothing
    """Make the engine from the table ``[settings]`` of over_http.toml."""
    return OverHttp(Settings.model_validate(settings))


def _pass_by(documents: Iterable[Document]) -> None:
    deque(documents, maxlen=0)
