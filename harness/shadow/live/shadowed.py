"""The serving engine with a candidate as its shadow: a searcher like any other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter_ns

from harness.core.engine import Answer, Manifest, Searcher, TakesParams
from harness.core.records import Scalar
from harness.shadow.live.comparison import Comparison
from harness.shadow.live.generation import Generation
from harness.shadow.live.pair import Served
from harness.shadow.live.side import told


class Shadowed:
    """Answers with the control's very answer, and offers each query to a comparison.

    What the control raises is raised. What the comparison does, and what becomes of it, is not
    seen by who asks; it costs them one put into a queue. Whatever else the control can do
    it can do here.
    """

    def __init__(self, control: Searcher, comparison: Comparison) -> None:
        self._control, self._comparison = control, comparison
        self._takes_params = control if isinstance(control, TakesParams) else None
        self._generation = _Careful(Generation(control))

    @property
    def manifest(self) -> Manifest:
        """What the control has open."""
        return self._control.manifest

    def __getattr__(self, name: str) -> object:
        return getattr(self._control, name)

    def search(self, text: str, k: int, *, client: str = "") -> Answer:
        """Answer as the control does; ``client`` is who sent the query, and no engine sees it."""
        return self._served(text, k, {}, lambda: self._control.search(text, k), client)

    def search_with(
        self, text: str, k: int, params: Mapping[str, Scalar], *, client: str = ""
    ) -> Answer:
        """Answer as the control does; one that takes no params is queried with the text alone."""
        control = self._takes_params
        if control is None:
            return self._served(text, k, params, lambda: self._control.search(text, k), client)
        ask = partial(control.search_with, text, k, params)
        return self._served(text, k, params, ask, client)

    def _served(
        self,
        text: str,
        k: int,
        params: Mapping[str, Scalar],
        ask: Callable[[], Answer],
        client: str,
    ) -> Answer:
        generation = self._generation()
        start = perf_counter_ns()
        try:
            answer = ask()
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as exc:  # a panic of a Rust engine is no Exception
            elapsed_ns = perf_counter_ns() - start
            self._offer(Served(text, k, params, None, _said(exc), elapsed_ns, generation, client))
            raise
        elapsed_ns = perf_counter_ns() - start
        self._offer(Served(text, k, params, answer, "", elapsed_ns, generation, client))
        return answer

    def _offer(self, served: Served) -> None:
        self._comparison.offer(served, self._generation)


class _Careful:
    """A generation that is the empty text where it cannot be read."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation

    def __call__(self) -> str:
        try:
            return self._generation()
        except Exception:  # noqa: BLE001  must not reach who is served
            return ""


def _said(exc: BaseException) -> str:
    """Name an exception, also one that cannot be told."""
    try:
        return told(exc)
    except Exception:  # noqa: BLE001  must not reach who is served
        return type(exc).__name__
