#!/usr/bin/env bash
# Artifact bytes to results of the first call, less a later call: tiny GPT-2 on the CPU.
set -euo pipefail
cd "$(dirname "$0")/.."

report=$(mktemp)
trap 'rm -f "$report"' EXIT
bazel build //client/corpus_runner:kiln-corpus //server:kilnd //compiler:kiln-worker
bazel-bin/client/corpus_runner/kiln-corpus tests/corpus/models/gpt2_train.jsonl --repeat 20 --jobs 1 --threads 2 \
  --report "$report"
python3 - "$report" <<'P'
import json, sys
print(f'{"CASE":24}{"LOAD ms":>9}{"FIRST ms":>10}{"LATER ms":>10}{"LOAD+FIRST-LATER ms":>21}')
for case in json.load(open(sys.argv[1])):
    load, first, later = case["load_ms"], case["first_run_ms"], case["run_ms"]
    print(f'{case["name"]:24}{load:9.2f}{first:10.2f}{later:10.2f}{load + first - later:21.2f}')
P
