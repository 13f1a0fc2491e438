"""A store of random messages, made once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness_engines.stacks.agent_mail.sqlite.store import MessageStore
from tests.make.mail.messages import Mail, some_mail, stored


@pytest.fixture(scope="session")
def mail() -> Mail:
    return some_mail(seed=7, count=300)


@pytest.fixture(scope="session")
def store(mail: Mail, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MessageStore]:
    with stored(tmp_path_factory.mktemp("store") / "mail.db", mail.messages) as made:
        yield made
