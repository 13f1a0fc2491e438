"""``stacks.typesense`` under the stage ``replay``: what was lost is not used again."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.stacks.typesense.arm import TypesenseSearcher
from harness.core.engine import Answer
from harness.core.errors import InvalidArm
from harness.core.run import Status
from harness.pipeline.index import index
from harness.pipeline.replay import replay
from tests.engines.typesense.fake import KEY, serving
from tests.make.search_server import status
from tests.make.toy import Toy

ARM = """summary = "x"
stack = "typesense"
[settings]
nodes = {nodes}
key_env = "A_SERVERS_KEY"
timeout_s = 20.0
retries = 2
"""


@pytest.mark.slow
def test_failures_of_a_lost_server_are_not_scored_after_it_is_back(
    project: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SERVERS_KEY", KEY)
    honest, asked = TypesenseSearcher.search, 0
    with serving() as nodes:
        path = tmp_path / "mine.toml"
        path.write_text(ARM.format(nodes=[node.url for node in nodes]), "utf-8")
        index(project.layout, str(path), project.cache)

        def loses(searcher: TypesenseSearcher, text: str, k: int) -> Answer:
            nonlocal asked
            asked += 1
            for node in nodes:
                node.forever = status(503) if asked == 3 else None
            return honest(searcher, text, k)

        monkeypatch.setattr(TypesenseSearcher, "search", loses)
        with pytest.raises(InvalidArm, match="lost while queries ran"):
            replay(project.layout, str(path), project.cache, project.params.replay)
        assert not project.layout.run("mine").exists()
        run = replay(project.layout, str(path), project.cache, project.params.replay)
        assert {*run.status} == {Status.ANSWERED}
        assert run.retries == 0
