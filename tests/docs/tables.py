"""What the pages leave to the reader, and what of them a test cannot type as it stands.

Keys are what follows ``python3 run.py``, or the beginning of it; a row that fits no line is red.
"""

from __future__ import annotations

from typing import NamedTuple

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


class Elsewhere(NamedTuple):
    """Why a line is not typed here, and the test that does the same."""

    why: str
    test: str


SUITE = Elsewhere("it is this suite, or a part of it", "tests")
BESIDE = Elsewhere(
    "a server and who asks it", "tests/docs/test_guides.py::test_a_run_judges_a_server"
)
BY_FILE = Elsewhere(
    "a server and who asks it", "tests/docs/test_guides.py::test_a_server_is_judged_by_its_file"
)
SERVICES = Elsewhere(
    "two services and who queries them",
    "tests/services/test_compare.py::test_two_services_are_compared_and_a_verdict_follows",
)
OTHER = Elsewhere(
    "a server and who asks it",
    "tests/docs/test_other_engine.py::test_it_is_checked_and_judged_from_its_file",
)
POSTGRES = Elsewhere(
    "it needs the extra postgres",
    "tests/engines/test_postgres.py::test_it_keeps_the_contract",
)
LUCENE = Elsewhere(
    "it needs the extra lucene, Java and jars",
    "tests/engines/test_lucene.py::test_it_keeps_the_contract",
)
TYPESENSE = Elsewhere(
    "it needs nodes of Typesense",
    "tests/engines/test_typesense_live.py::test_it_keeps_the_contract",
)
KILLED = Elsewhere(
    "it starts nodes of Typesense",
    "tests/engines/test_typesense_live.py::test_a_leader_is_killed_and_then_a_second_node",
)
REMOTE = "examples/remote_mcp/over-stdio.toml"
SERVER = "it serves until it is stopped: "
ELSEWHERE = {
    "": Elsewhere("it prints what there is", "tests/test_run.py"),
    "python -m tests.oracle.golden check": Elsewhere("minutes", "tests/oracle/test_golden.py"),
    "python -m tests.mutants": Elsewhere("most of an hour", "tests/mutants/test_all.py"),
    "demo": Elsewhere("minutes", "tests/cli/test_runs.py::test_the_decision_is_printed"),
    "hatchling build": Elsewhere(
        "it builds this project, from its root",
        "tests/test_package.py::test_the_core_alone_judges_an_engine_of_ones_own",
    ),
    "harness labels": Elsewhere(
        "it reads judgements of people and of a machine",
        "tests/cli/test_judging.py::test_people_decide_and_the_machine_describes",
    ),
    "harness reproduce": Elsewhere(
        "it reads what the demo recorded",
        "tests/cli/test_trust.py::test_what_was_recorded_is_reproduced",
    ),
    "harness import ir-datasets": Elsewhere(
        "it downloads a collection",
        "tests/pipeline/test_imports.py::test_what_is_written_for_it_comes_back",
    ),
    "harness load --dataset python-docs --arm fts5 --arm tantivy --find": Elsewhere(
        "dozens of trials, each with processes of its own",
        "tests/load/test_stage.py::test_a_search_finds_a_rate_or_says_why_not",
    ),
    "harness docs serve": Elsewhere(
        SERVER + "its answers follow the folder",
        "tests/cli/test_kept.py::test_over_http_a_client_needs_the_token_and_sees_the_folder_as_it_is",
    ),
    "harness mail-server": Elsewhere(
        SERVER + "its answers are those in process",
        "tests/cli/test_mail_server.py::test_over_http_the_run_files_are_the_same_bytes",
    ),
    f"harness run --dataset agent-mail --arms mail-fts5,{REMOTE}": Elsewhere(
        "hundreds of questions through pipes",
        "tests/cli/test_mail_server.py::test_over_stdio_the_run_files_are_the_same_bytes",
    ),
    "harness serve": Elsewhere(
        SERVER + "on a port of its own, until Ctrl-C",
        "tests/serve/test_application.py::test_it_serves_and_ends_at_a_ctrl_c",
    ),
    "harness shadow receive": Elsewhere(
        SERVER + "two servers and clients over sockets",
        "tests/cli/test_shadow_servers.py::test_mirrored_queries_are_in_the_log_and_a_stop_loses_none",
    ),
    "harness shadow mcp": Elsewhere(
        SERVER + "two servers and a client",
        "tests/cli/test_shadow_servers.py::test_over_http_a_client_sees_the_control_and_the_log_sees_both",
    ),
    "harness run --dataset python-docs --arms fts5,examples/http_engine/over_http.toml": BESIDE,
    "harness run --dataset python-docs --arms fts5,examples/http_engine/http.toml": BY_FILE,
    "harness arm check examples/http_engine/http.toml": BY_FILE,
    "harness compare": SERVICES,
    "harness arm check examples/other_engine/bm25s.toml": OTHER,
    "harness run --dataset python-docs --arms fts5,examples/other_engine/bm25s.toml": OTHER,
    "python examples/other_engine/server.py": OTHER,
    "harness arm check examples/postgres/postgres.toml": POSTGRES,
    "harness run --dataset python-docs --arms fts5,examples/postgres/postgres.toml": POSTGRES,
    "harness arm check examples/lucene/lucene.toml": LUCENE,
    "harness run --dataset python-docs --arms tantivy,examples/lucene/lucene.toml": LUCENE,
    "harness run --dataset FOLDER/chat": POSTGRES,
    "harness run --dataset PATH/SET": POSTGRES,
    "harness run --dataset PATH/SET --arms tantivy,examples/lucene/lucene.toml": LUCENE,
    "harness run --dataset PATH/SET --arms tantivy,examples/typesense/typesense.toml": TYPESENSE,
    "harness arm check examples/typesense/typesense.toml": TYPESENSE,
    "harness run --dataset python-docs --arms tantivy,examples/typesense/typesense.toml": TYPESENSE,
    "python benchmarks/node_failures.py": KILLED,
    "harness measure FOLDER": Elsewhere(
        "there is one run of many files",
        "tests/pipeline/test_score.py::test_two_processes_give_the_same_values",
    ),
    "mypy": SUITE,
    "pytest": SUITE,
    "ruff": SUITE,
    "test": SUITE,
    "uv pip compile": Elsewhere(
        "it asks a package index",
        "tests/test_package.py::test_the_lock_has_all_that_it_is_made_from",
    ),
    "my-search/ci.sh": Elsewhere(
        "a script of its own", "tests/cli/test_ci.py::test_a_new_project_passes_its_own_script"
    ),
    "./ci.sh": Elsewhere("the same, with a baseline", "tests/cli/test_ci.py::story"),
    "python -m tests.docs.reference": Elsewhere(
        "it writes into docs", "tests/docs/test_reference.py"
    ),
    "python -m mkdocs build": Elsewhere("it writes a folder", "tests/docs/test_site.py"),
    "python examples/http_engine/server.py": BESIDE,
}

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

WRITES = {
    "harness ci": ("{--out}/ci.md", "{--out}/gl-code-quality-report.json"),
    "harness convert": ("{--out}/harness-convert.txt",),
    "harness export": (
        "{--to}/table.csv", "{--to}/table.md", "{--to}/table.tex", "{--to}/per_query.csv",
        "{--to}/runs/tantivy.trec", "{--to}/qrels.trec",
    ),
    "harness history add": ("history/{--dataset}.jsonl",),
    "harness history page": ("reports/trends.html",),
    "harness import": ("datasets/{--name}/card.toml", "qrels/{--name}/test.qrels"),
    "harness init": ("my-search/ci.sh",),
    "harness load": ("perf/{--dataset}/load.html", "perf/{--dataset}/load.jsonl"),
    "harness migrate begin": ("migration/ledger.json", "migration/switch.env"),
    "harness pool": ("{--out}", "{--out}.jsonl"),
    "harness queries from-log": ("{--out}", "{--out}.card.json"),
    "harness stage prepare": ("build/{--dataset}/data/corpus.jsonl",),
    "harness run": (
        "{--out}/index.html", "{--out}/explore.html", "{--out}/report.md", "{--out}/scores.json",
    ),
    "harness shadow report": ("{--out}/index.html", "{--out}/shadow.json"),
    "harness shadow run": ("{--out}",),
}  # fmt: skip
"""Files that a page says are written; options stand in braces."""
