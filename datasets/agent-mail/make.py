"""Make the data set ``agent-mail``: ``harness prepare`` calls ``make``.

    python3 run.py python datasets/agent-mail/make.py build/agent-mail/data

prints how many words queries and answers share, by slice of prepared data.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from agent_mail.generate import AgentMail, Traffic, generate
from agent_mail.overlap import measure, table

from harness.corpus.card import DatasetCard
from harness.corpus.prepared import Prepared


def make(card: DatasetCard) -> AgentMail:
    """Return the messages, queries and judgements that the card's table ``[make]`` describes."""
    return generate(Traffic.model_validate(card.make))


if __name__ == "__main__":
    data = Prepared.open(Path(sys.argv[1]))
    sys.stdout.write(table(measure(data.documents(), data.queries(), data.qrels())))
