"""What the pages leave to the reader, and what of them a test cannot type as it stands.

Keys are what follows ``python3 run.py``, or the beginning of it; a row that fits no line is red.
"""

from __future__ import annotations

FILLED = {
    "CORPUS": "collections/mine/corpus.jsonl",
    "FOLDER": "collections/mine",
    "LICENCE": "CC0-1.0",
    "LOG": "out/shadow",
    "MBOX": "collections/mine/mbox",
    "NAME": "theirs",
    "OWNER": "acme",
    "PATH": "collections",
    "PEERS": ".venv",
    "QUERIES": "collections/mine/queries.jsonl",
    "QRELS": "collections/mine/qrels.trec",
    "REPO@REF": "search-harness@v1",
    "SOURCE": "somewhere",
    "TOPICS": "collections/mine/topics.tsv",
}
"""What stands for a word in capitals."""
VERDICTS = frozenset({0, 1, 3})
CODES = {
    "harness ci": VERDICTS,
    "harness gate": VERDICTS,
    "harness labels": VERDICTS,
    "harness load": VERDICTS,
    "harness panel settle": frozenset({0, 3}),
    "harness regress": VERDICTS,
    "harness shadow replay": frozenset({0, 1}),
}
"""Codes by which a command may end; of all others 0."""
KEYS = {
    "harness judge out/first.qrels": "10" * 150 + "q",
    "harness judge out/sample.qrels": "0" * 400,
    "harness judge": "1s0uq",
}
"""What a person types while it runs."""
SMALLER = {
    "harness load": {"--seconds": "0.2", "--rounds": "1"},
    "python benchmarks/documents.py pdf": {"--documents": "5"},
    "python benchmarks/documents.py places": {"--chunks": "40"},
    "python benchmarks/documents.py stages": {"--chunks": "40", "--queries": "3", "--rounds": "1"},
    "python benchmarks/rebuilds.py": {"--times": "4"},
    "python benchmarks/moving_folders.py": {"--minutes": "0.05"},
    "python benchmarks/moving_mail.py": {"--minutes": "0.05"},
    "python -m tests.fuzz": {"--minutes": "0.02"},
    "python benchmarks/verdicts.py": {"--trials": "12", "--queries": "30"},
    "python benchmarks/simulate.py": {"--trials": "20"},
}
"""Options that are made small, also where a line leaves them to their defaults."""
MOST_ARMS = 3
"""More are not run side by side: the first of them, and the control."""
ONLY_HELP = {
    "python benchmarks/capacity.py": "it embeds, and indexes a hundred thousand messages",
    "python benchmarks/field.py": "it runs every arm on six collections",
    "python benchmarks/mail_search.py": "five rounds at least, of every engine",
    "python benchmarks/measures.py": "its peers have an environment of their own",
    "python benchmarks/paper_table.py": "its peers have an environment of their own",
    "python benchmarks/package.py": "it installs environments from a package index",
    "python benchmarks/receiver.py": "it starts nginx and servers, and times them",
    "python benchmarks/shadow.py": "it starts processes, and waits between questions",
}
"""Only asked for their options, and why."""
MAKES = {"python benchmarks/documents.py pdf": "a folder that the next lines of its page read"}
"""Scripts that are always run, and what they make."""
PACKAGE = "tests/test_package.py"
POST = "tests/cli/test_mail_server.py"
SHADOW_SERVERS = "tests/cli/test_shadow_servers.py"
GUIDES = "tests/docs/test_guides.py"
POSTGRES = "tests/engines/test_postgres.py"
LUCENE = "tests/engines/test_lucene.py"
NODES = "tests/engines/test_typesense_live.py"
SUITE = "tests"
CI = "tests/cli/test_ci.py"
LOADS = "tests/load/test_stage.py"
ELSEWHERE = {
    "": "tests/test_run.py",
    "python -m tests.oracle.golden check": "tests/oracle/test_golden.py",
    "python -m tests.mutants": "tests/mutants/test_all.py",
    "demo": "tests/cli/test_runs.py",
    "hatchling build": PACKAGE,
    "uv pip compile": PACKAGE,
    "harness labels": "tests/cli/test_judging.py",
    "harness reproduce": "tests/cli/test_trust.py",
    "harness import ir-datasets": "tests/pipeline/test_imports.py",
    "harness load --dataset python-docs --arm fts5 --arm tantivy --find": LOADS,
    "harness docs serve": "tests/cli/test_kept.py",
    "harness mail-server": POST,
    "harness run --dataset agent-mail --arms mail-fts5,examples/remote_mcp/over-stdio.toml": POST,
    "harness serve": "tests/serve/test_application.py",
    "harness shadow receive": SHADOW_SERVERS,
    "harness shadow mcp": SHADOW_SERVERS,
    "harness run --dataset python-docs --arms fts5,examples/http_engine/over_http.toml": GUIDES,
    "python examples/http_engine/server.py": GUIDES,
    "harness run --dataset python-docs --arms fts5,examples/http_engine/http.toml": GUIDES,
    "harness arm check examples/http_engine/http.toml": GUIDES,
    "harness arm check examples/other_engine/bm25s.toml": GUIDES,
    "harness run --dataset python-docs --arms fts5,examples/other_engine/bm25s.toml": GUIDES,
    "python examples/other_engine/server.py": GUIDES,
    "harness compare": "tests/services/test_compare.py",
    "harness arm check examples/postgres/postgres.toml": POSTGRES,
    "harness run --dataset python-docs --arms fts5,examples/postgres/postgres.toml": POSTGRES,
    "harness run --dataset FOLDER/chat": POSTGRES,
    "harness run --dataset PATH/SET": POSTGRES,
    "harness arm check examples/lucene/lucene.toml": LUCENE,
    "harness run --dataset python-docs --arms tantivy,examples/lucene/lucene.toml": LUCENE,
    "harness run --dataset PATH/SET --arms tantivy,examples/lucene/lucene.toml": LUCENE,
    "harness run --dataset PATH/SET --arms tantivy,examples/typesense/typesense.toml": NODES,
    "harness arm check examples/typesense/typesense.toml": NODES,
    "harness run --dataset python-docs --arms tantivy,examples/typesense/typesense.toml": NODES,
    "harness measure FOLDER": "tests/pipeline/test_score.py",
    "mypy": SUITE,
    "pytest": SUITE,
    "ruff": SUITE,
    "test": SUITE,
    "my-search/ci.sh": CI,
    "./ci.sh": CI,
    "python -m tests.docs.reference": "tests/docs/test_reference.py",
    "python -m mkdocs build": "tests/docs/test_run_commands.py",
}
"""Lines that are not typed here, and where the same is tried: what serves until it is stopped,
asks another service, takes minutes, or is this suite."""
LONGER = frozenset({
    "datasets/README.md",
    "docs/datasets/package-texts.md",
    "docs/field.md",
    "docs/how-to/engine-elsewhere.md",
    "docs/load.md",
    "docs/migrations/agent-mail.md",
    "docs/stacks/code.md",
    "docs/stacks/documents.md",
    "docs/stacks/writing.md",
})
"""Pages typed under ``--all``: their commands are those of other pages, on other data."""
RUN = "python3 run.py harness run --dataset"
SHADOW = (
    "python3 run.py harness shadow run --dataset python-docs --control fts5 --candidate tantivy"
    " --out out/shadow"
)
MINE = f"{RUN} python-docs --arms fts5,tantivy --control fts5 --out out/mine"
IMPORTED = "python3 run.py harness import beir collections/mine --name mine"
MAIL = f"{RUN} agent-mail --policy policy/mail.toml --out out/agent-mail"
HARNESS = "python3 run.py harness"
OF_MAIL = "--dataset agent-mail"
ARMS_OF_MAIL = ("mail-fts5", "mail-tantivy")
INDEXED_MAIL = tuple(f"{HARNESS} stage index {OF_MAIL} --arm {arm}" for arm in ARMS_OF_MAIL)
SHADOW_OF_MAIL = (
    f"{HARNESS} shadow run {OF_MAIL} --control mail-fts5 --candidate mail-tantivy --out"
)
BEFORE = {
    "docs/api.md": ("cp build/python-docs/data/qrels.trec .", "cp -r build/python-docs/runs runs"),
    "docs/ci.md": (
        IMPORTED,
        f"{RUN} mine --arms fts5,tantivy --control fts5 --out out/mine",
        "cp -r out/mine out/before",
    ),
    "docs/judging.md": (IMPORTED,),
    "docs/load.md": (MAIL,),
    "docs/migrate.md": (*INDEXED_MAIL, f"{SHADOW_OF_MAIL} out/mail-shadow"),
    "docs/params.md": (SHADOW,),
    "docs/regress.md": (
        MINE,
        "cp -r out/mine out/before",
        "mkdir ../release-1 && cp -r build ../release-1/build",
    ),
    "docs/shadow-reading.md": (SHADOW,),
}
"""What has to be there before a page's first command: what earlier pages, or the demo, make."""
