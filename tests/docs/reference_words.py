"""What the reference says and no code can: what exit codes, variables and files are for."""

from __future__ import annotations

from collections.abc import Mapping

EXITS: Mapping[int, str] = {
    0: "done; of a command that judges: every step may be taken, or nothing is worse",
    1: "hold, or roll back: a gate fails, a step is refused, a drill fails, a divergence is open,"
    " no rate keeps the budget; nothing else ends so",
    2: "no verdict: bad input, an arm that did not run, a crash, a full disk. One line on the error"
    " stream says what, and `--debug` where",
    3: "inconclusive: the evidence does not say, and the output says what would settle it",
    130: "interrupted; rerun to resume",
    141: "output pipe closed, as by `head`; nothing is printed",
}
KEYS = """\
Every file that you write, with the keys that it must have. An unknown key and a missing one are
errors that name the file and the line. What each means:
[policies and `params.yaml`](params.md), [stacks](engines.md#settings-of-the-stacks),
[tuning](how-to/tune.md#the-file-of-values), [judges](judging.md#a-machine-that-judges),
[live comparisons](shadow.md#mirrored-requests-of-a-search-server),
[alarms](shadow-reading.md#policywatchtoml), [viewers](engines.md#mail-search-with-several-viewers).
"""
MEASURES = """\
A measure is written as ir-measures writes it: `NAME@k`, or with settings, `NAME(key=value)@k`; k
from 1. `rel=2` asks for grade 2 or more, `judged_only=True` takes unjudged documents out first,
`dcg='exp-log2'` is the exponential gain, `gains={1: 1, 2: 5}` other gains by grade. What the
usual ones mean: [method.md](method.md#quality-harnessmeasures). The last column says whether the
[bounds over the missing judgements](judging.md) are known.
"""
AGREEMENT = """\
For the rule `agreement_floor`, and on the page. k is one of `compare.depths`; what they mean
stands in [method.md](method.md#agreement-harnessagreementpy).
"""
ENVIRONMENT: Mapping[str, str] = {
    "HARNESS_CRASH": "tests only: `full` cuts a command off at each of its calls, not at a few",
    "CLI_FUZZ": "tests only: `all` tries every hostile value of every option of every command",
    "GITHUB_ACTIONS": "`true` makes `harness ci` print workflow commands, as with `--github`",
    "GITHUB_STEP_SUMMARY": "the file to which `harness ci` then adds its comment",
    "HARNESS_CALLED": "how messages name the command; `run.py` sets it",
    "HARNESS_CONTROL_TOKEN": "the control's token for `harness shadow mcp`, without a file of it",
    "HARNESS_CANDIDATE_TOKEN": "the candidate's token for `harness shadow mcp`",
    "HARNESS_NO_CODE": "`1` refuses arms that bring code, as `--no-code` does"
    " ([trust](../SECURITY.md))",
    "TYPESENSE_API_KEY": "the key of `benchmarks/typesense_nodes.py`, and of arms that name it",
    "LUCENE_JARS": "tests only: a folder with Lucene, which serves as an oracle",
    "MPLCONFIGDIR": "where matplotlib keeps what it found of fonts;"
    " set for it where a home takes no files",
    "MAIL_FILTER_CASES": "tests only: how many cases of a seeded stream every mail engine answers",
    "MAIL_PAGING_STEPS": "tests only: how many steps move messages between pages",
    "MAIL_SCOPE_STEPS": "tests only: how many searches compare what viewers see",
    "OPENAI_API_KEY": "the key of `harness judge --machine` with an endpoint",
    "OPENAI_BASE_URL": "its address, for example `http://127.0.0.1:11434/v1`",
    "OPENBLAS_NUM_THREADS": "threads of numpy's matrices; `run.py` makes it 1 where it is not set",
    "ORT_DISABLE_TELEMETRY": "set to `1` by the program, so that onnxruntime reports nothing",
    "PIP_INDEX_URL": "`run.py` only: where packages come from, handed on to uv",
    "SCREENSHOTS": "tests only: a folder for pictures of pages with hostile texts",
    "SOURCE_DATE_EPOCH": "seconds since 1970, which NumPy reads; anything else is refused",
    "TMPDIR": "the folder for temporary files, such as indexes that only one command needs",
}
FILES_HEAD = """\
`NAME` is a data set, `ARM` an arm. Files below `build/` are the same from day to day and tracked
by digest in `dvc.lock`. Files below `perf/` depend on a clock. Files below `.cache/` may be
deleted. `harness run --out OUT` has the same tree in `OUT/work`.

### The pipeline
"""
PIPELINE: Mapping[str, str] = {
    "build/NAME/data/clusters.json": "Queries that are near duplicates of each other.",
    "build/NAME/data/corpus.jsonl": "Documents, checked and in one format.",
    "build/NAME/data/manifest.json": "Counts and digests of the three files beside it.",
    "build/NAME/data/qrels.trec": "Judgements, as TREC writes them.",
    "build/NAME/data/queries.jsonl": "Queries, with their slices.",
    "build/NAME/load.json": "What was loaded, without the times.",
    "perf/NAME/apart/CONTROL~CANDIDATE.json": "What `harness decompose` left for the explorer.",
    "perf/NAME/experiments/log.jsonl": "Every race and judgement, a line each; it only grows.",
    "perf/NAME/experiments/inventory-DIGEST.json": "Queries and judgements that one was made on.",
    "perf/NAME/load.html": "The last load, for people.",
    "perf/NAME/load.jsonl": "Every trial under load, a line each; it only grows.",
    "perf/NAME/traffic/CONTROL~CANDIDATE.json": "What `harness shadow traffic` took in.",
}
FILES: Mapping[str, Mapping[str, str]] = {
    "The report, in `reports/` or in `--out` of `harness run`": {
        "index.html": "The page: one file, no network.",
        "explore.html": "Every query of any two arms, in one file too.",
        "report.md": "The same for a terminal or a merge request.",
        "decision.json": "The decision with its evidence, for machines; its schema is "
        "made of its [model](../harness/report/decision.py).",
        "junit.xml": "One test case a gate.",
        "receipt.json": "Digests of all that the pages were made from (`reports/` only).",
        "trends.html": "Decisions over time, by `harness history page` (`reports/` only).",
    },
    "What `harness run --out` leaves beside it": {
        "scores.json": "Means with intervals: `{arm: {measure: {mean, low, high, queries}}}`.",
        "per_query.parquet": "Every value of every arm, by query.",
        "queries.jsonl": "The queries, for `harness ci`.",
        "ties.json": "What equal scores of an imported run could do (only with `--trec-run`).",
        "runs/ARM.parquet": "The rankings.",
        "runs/ARM.trec": "The same, for other tools.",
        "ci.md": "By `harness ci`: the comment under a change.",
        "gl-code-quality-report.json": "By `harness ci`: notes for GitLab.",
    },
    "A data set": {
        "datasets/NAME/card.toml": "Source, licence, counts, digests, warnings.",
        "datasets/NAME/corpus.jsonl": "Documents of an imported set.",
        "datasets/NAME/queries.jsonl": "Its queries.",
        "qrels/NAME/SPLIT.qrels": "Judgements, in git.",
        "qrels/NAME/SPLIT.judged.jsonl": "Who judged when, a line a pool that was merged.",
    },
    "Files that a command names": {
        "harness-COMMAND.txt": "The mark of a folder that a command made, named after"
        " the command: without it, nothing is written into a folder that is not empty.",
        "POOL": "By `harness pool --out`: pairs to judge, `?` for a grade.",
        "POOL.jsonl": "Words of the query and of the document of each pair.",
        "POOL.NAME.qrels": "By `harness judge --by NAME`: the grades of one person.",
        "OUT.disagreements.qrels": "By `harness panel settle`: pairs for a second look.",
        "build/NAME/labels/NAME.sample.json": "By `harness labels`: a judged sample as evidence.",
        "LABELS": "By `harness judge --machine --out`: a label a line, which says who judged.",
        ".cache/judges/NAME": "What the machine of that name answered and cost; deleting it pays"
        " for all of it anew.",
        "TO/runs/ARM.trec": "By `harness export --out`: rankings.",
        "TO/qrels.trec": "Judgements.",
        "TO/per_query.csv": "Values by query.",
        "TO/table.csv": "The table, unrounded; `table.md` and `table.tex` are for a paper.",
        "TO/forest.KIND": "With `--figures`: means against the control.",
        "TO/differences-ARM.KIND": "With `--figures`: differences by query.",
        "LOG/observations.NNNNNN.jsonl": "Of a shadow: a line for every attempt.",
        "LOG/divergences.NNNNNN.jsonl": "Both sides of each pair that differs.",
        "LOG/degradations.NNNNNN.jsonl": "Whatever went worse than it should.",
        "LOG/off": "Made by you: the comparison stops while it is there.",
        "OUT/shadow.json": "By `harness shadow report`, beside its `index.html`.",
        "migration/ledger.json": "What was done in a migration; it only grows.",
        "migration/switch.env": "The kill switch that the service reads.",
        "history/NAME.jsonl": "Decisions, a line each; belongs into git.",
        "history/experiments/NAME.jsonl": "Log of experiments, kept by `harness history add`.",
        "POLICY.pins.json": "By `harness policy pin`: what a policy is pinned to.",
        "policy/accepted.toml": "Divergences that somebody took as they are.",
    },
}
"""What commands leave, by the heading under which it stands."""
