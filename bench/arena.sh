#!/usr/bin/env bash
# Arena bytes of each model's plan against the most bytes live at once (1.00: a perfect packing; bar 1.10).
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/run_corpus.bash

[[ $# -gt 0 ]] || set -- tests/corpus/models
run_corpus "$@" --device cuda-compile --progress >/dev/null || true
python3 bench/figures.py arena "$report"
