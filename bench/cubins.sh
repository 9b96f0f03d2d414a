#!/usr/bin/env bash
# Graph to artifact with all cubins, daemon up, all caches empty: full/gpt2_train_bf16 (bars: 8 s on 2 cores, 1.5 s on 16).
set -euo pipefail
cd "$(dirname "$0")/.."

report=$(mktemp)
trap 'rm -f "$report"' EXIT
bazel build //client/corpus_runner:kiln-corpus //server:kilnd //compiler:kiln-worker
bazel-bin/client/corpus_runner/kiln-corpus tests/corpus/full/gpt2_train_bf16.jsonl.zst --device cuda-compile \
  --report "$report"
python3 - "$report" <<'P'
import json, sys
cases = json.load(open(sys.argv[1]))
print(f'{"CASE":32}{"COMPILE ms":>12}')
for case in cases:
    print(f'{case["name"]:32}{case["compile_ms"]:12.0f}')
print(f'{"in all, one after another":32}{sum(c["compile_ms"] for c in cases):12.0f}')
P
