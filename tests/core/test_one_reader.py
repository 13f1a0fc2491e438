"""What a stranger may have written is read by the one reader with bounds, and by nothing else."""

from __future__ import annotations

import ast

import pytest

from tests.source import Module, known

PARSERS = {
    ("json", "load"), ("json", "loads"), ("tomllib", "load"), ("tomllib", "loads"),
    ("yaml", "safe_load"), ("yaml", "load"), ("gzip", "open"), ("pickle", "load"),
    ("pickle", "loads"), ("marshal", "loads"), ("csv", "reader"), ("csv", "DictReader"),
    ("pq", "ParquetFile"), ("pq", "read_table"), ("pq", "read_metadata"),
}  # fmt: skip
READS = {"read_text", "read_bytes"}
READERS = {"harness/core/reading.py", "harness/core/formats.py", "harness/core/files.py",
           "harness/corpus/parquet.py"}  # fmt: skip
OURS = {
    "harness/report/html.py": "templates of this package",
    "harness/report/explorer.py": "templates of this package",
    "harness/serve/pages.py": "templates of this package",
    "harness/pipeline/init.py": "templates of this package",
    "harness/replay/machine.py": "files of the kernel",
    "engines/stacks/keeper.py": "commands of the process that started it, and logs of servers",
    "engines/stacks/postgres/embedded.py": "files of the server that it started",
    "engines/stacks/code/reading/documents.py": "text of a document, indexed whatever it is",
    "harness/core/mcp_pipes.py": "the id of a request, in a line within a bound",
    "harness/core/batches.py": "work of the process that started it",
    "harness/shadow/worker.py": "questions of the process that started it",
    "harness/check/answers.py": "questions and answers between two processes of ours",
    "engines/stacks/documents/library.py": "the folder of an index, which the stack wrote",
    "engines/stacks/documents/pdf.py": "texts of the process that it started",
    "engines/stacks/agent_mail/sqlite/store.py": "rows of a database that the stack wrote",
}
"""What reads without bounds, and why it may."""


def unbounded(module: Module) -> list[str]:
    """Name the calls that read without a bound, by their lines."""
    found = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            whose = node.value.id if isinstance(node.value, ast.Name) else ""
            if (whose, node.attr) in PARSERS or node.attr in READS:
                found.append(f"{module.file}:{node.lineno}: {whose}.{node.attr}")
    return found


def test_nothing_else_reads_what_a_stranger_may_have_written() -> None:
    outside = [module for module in known().values() if module.file not in READERS | OURS.keys()]
    assert len(outside) > 150
    assert [call for module in outside for call in unbounded(module)] == []


@pytest.mark.parametrize("file", OURS)
def test_what_is_excused_still_needs_it(file: str) -> None:
    (module,) = (one for one in known().values() if one.file == file)
    assert unbounded(module)


MODELS = {
    "harness/core/mcp_pipes.py": "a line within a bound, as the SDK is about to read it",
    "harness/report/decision/decision_json.py": "a decision, written as JSON once more",
    "harness/migrate/ledger.py": "an entry of what was read, written as JSON once more",
    "harness/shadow/engine_file.py": "settings of an arm, written as JSON once more",
}
"""Where pydantic reads JSON that was not checked, and why it may: of two equal keys it takes one,
and it knows no bound of depth or digits."""


def called(module: Module) -> set[str]:
    """Name what a module calls, without what it is called of."""
    calls = [node.func for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    return {
        name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "") for name in calls
    }


TIMES = {
    "harness/core/formats.py": "the reader of times",
    "harness/policy/age.py": "says in words of its own what lacks",
    "engines/stacks/agent_mail/mcp_tools/arguments.py": "a client's filter, answered in its words",
}
"""Where a time is read in another way, and why."""


def test_a_time_that_no_zone_can_tell_is_refused_by_one_reader() -> None:
    """``0001-01-01T00:00:00+14:00`` was a time to Python, and ended whoever told it in UTC."""
    own = {
        module.file
        for module in known().values()
        if {"fromisoformat", "AwareDatetime"}
        & {getattr(node, "attr", getattr(node, "id", "")) for node in ast.walk(module.tree)}
    }
    assert own == TIMES.keys()


def test_json_is_checked_before_a_model_reads_it() -> None:
    reading = {
        module.file: called(module)
        for module in known().values()
        if called(module) & {"validate_json", "model_validate_json"}
    }
    assert len(reading) > 5
    assert {file for file, names in reading.items() if "checked" not in names} == MODELS.keys()
