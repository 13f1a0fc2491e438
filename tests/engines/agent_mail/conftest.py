"""A store of random messages, made once."""

from collections.abc import Iterator

import pytest

from harness_engines.stacks.agent_mail import arm
from harness_engines.stacks.agent_mail.contract import SearchMode
from harness_engines.stacks.agent_mail.mcp_tools.server import Surface
from harness_engines.stacks.agent_mail.sqlite.store import MessageStore, opened
from tests.engines.agent_mail.whole import MAIL, Tools, Whole, build, whole
from tests.make.mail_engines import built_live, served
from tests.make.mail_messages import Mail, some_mail, stored


@pytest.fixture(scope="session")
def mail() -> Mail:
    return some_mail(seed=7, count=300)


@pytest.fixture(scope="session")
def post(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """Serve ``MAIL``; nothing may be written to it."""
    folder = tmp_path_factory.mktemp("post")
    build(folder, MAIL.messages)
    with whole(folder) as made:
        yield made


@pytest.fixture(scope="session")
def store(mail: Mail, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessageStore]:
    with stored(tmp_path_factory.mktemp("store") / "mail.db", mail.messages) as made:
        yield made


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    folder = tmp_path_factory.mktemp("surface")
    index = built_live(folder)
    with served(folder) as searcher, opened(index / arm.STORE) as directory:
        made = searcher.manifest
        yield Tools(Surface(searcher.service, directory, "mine", made, SearchMode.LEXICAL))
