#!/usr/bin/env bash
# What the build server runs, and what you can run: 0 no worse, 1 worse, 2 bad input, 3 inconclusive.
# HARNESS is how the harness is called here, quoted as in a shell. Without it: the command harness, or that of .venv.
# BASELINE is the folder out/ of the base branch; without it before/, a copy of an earlier out/, if there is one.
set -euo pipefail
cd "$$(dirname "$$0")"
rm -f out/ci.md out/gl-code-quality-report.json out/decision.json out/junit.xml    # an old answer is none
if [ -z "$${HARNESS:-}" ] && ! command -v harness >/dev/null; then
  for folder in . .. ../.. ../../..; do
    if [ -x "$$folder/.venv/bin/harness" ]; then HARNESS="$$folder/.venv/bin/harness"; break; fi
  done
  if [ -z "$${HARNESS:-}" ]; then
    echo "ci.sh: harness is neither on PATH nor in a .venv here or above. Install it, or set HARNESS to how it is called" >&2
    exit 2
  fi
fi
[ -n "$${BASELINE:-}" ] || [ ! -d before ] || BASELINE=before
eval "harness=($${HARNESS:-harness})"
"$${harness[@]}" run --dataset $data --engine $engine$control --out out
"$${harness[@]}" ci --from out --queries $queries --inconclusive=warn $${BASELINE:+--baseline "$$BASELINE"}
