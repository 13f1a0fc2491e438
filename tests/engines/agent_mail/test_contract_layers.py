"""Who may know what: retrieval knows no permissions and no database; nothing waits on a loop."""

from __future__ import annotations

import ast

import pytest

from engines.stacks.agent_mail.pipeline import scope
from tests.source import imported, known, reached

pytestmark = pytest.mark.slow

STACK = "engines.stacks.agent_mail."
BLOCKS = ("engines.vector", "engines.ranking", "engines.lexical", "engines.rerank")
RETRIEVAL = sorted(name for name in known() if name.startswith((*BLOCKS, f"{STACK}tantivy")))
"""What finds and orders, over text, vectors and ids."""
ON_SQLITE = {f"{STACK}sqlite.search", f"{STACK}pipeline.retrievers"}
PATH = sorted(
    name
    for name in known()
    if name.startswith((STACK, *BLOCKS)) and not name.startswith(f"{STACK}mcp_tools")
)
"""All that a question goes through."""


def names(name: str) -> set[str]:
    """Everything that a module and those below it import."""
    return {other for module in reached(known()[name]) for other in imported(module.tree)}


def test_there_is_something_to_look_at() -> None:
    assert len(RETRIEVAL) > 12
    assert f"{STACK}tantivy.engine" in RETRIEVAL
    assert f"{STACK}service" in PATH
    assert scope.__name__ in names(f"{STACK}service")
    assert "sqlite3" in names(f"{STACK}sqlite.search")


@pytest.mark.parametrize("name", [*RETRIEVAL, *sorted(ON_SQLITE)])
def test_no_engine_knows_who_may_see_what(name: str) -> None:
    assert scope.__name__ not in names(name) | {name}


@pytest.mark.parametrize("name", RETRIEVAL)
def test_retrieval_does_not_depend_on_the_message_store(name: str) -> None:
    store = {f"{STACK}sqlite.store", f"{STACK}sqlite.schema"}
    assert store <= known().keys()
    assert store.isdisjoint(names(name))


@pytest.mark.parametrize("name", PATH)
def test_nothing_in_the_path_of_a_question_is_asynchronous(name: str) -> None:
    loops = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)
    module = known()[name]
    assert not [node for node in ast.walk(module.tree) if isinstance(node, loops)]
    assert "asyncio" not in set(imported(module.tree))
