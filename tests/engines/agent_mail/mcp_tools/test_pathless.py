"""``mcp_tools.pathless``: reasons without the folders of this machine."""

from __future__ import annotations

import pytest

from engines.contract import IndexUnavailable
from engines.stacks.agent_mail.mcp_tools.results import pathless
from engines.stacks.agent_mail.pipeline.plan import FallbackTier
from engines.stacks.agent_mail.pipeline.scope import viewer
from tests.engines.agent_mail.fakes import Failing, message, service
from tests.engines.agent_mail.mcp_tools.conftest import over


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("tantivy: /srv/mail/build/index: is being rebuilt", "tantivy: index: is being rebuilt"),
        ("OSError: [Errno 2] '/srv/mail/a b'", "OSError: [Errno 2] 'a b'"),
        ("words and/or a/b/c, br-2tnl", "words and/or a/b/c, br-2tnl"),
        ("http://127.0.0.1:80/a/b", "http://127.0.0.1:80/a/b"),
        ("", ""),
    ],
)
def test_a_file_is_named_without_its_folder(said: str, told: str) -> None:
    assert pathless(said) == told


@pytest.mark.parametrize("scope", [None, viewer("Bob", frozenset(), frozenset())])
def test_no_caller_reads_where_an_index_lies(scope: object) -> None:
    broken = Failing("tantivy", IndexUnavailable("/srv/private/index: is not there"))
    mail = service([message(1, "a")], lexical={FallbackTier.TANTIVY: broken})
    found = over(mail, scope=scope).found("a", explain=True)  # type: ignore[arg-type]
    assert "/srv" not in str(found)
