#!/usr/bin/env bash
# The models that Kiln promises: through the client, a daemon and its workers, on the CPU, each result within PyTorch's
# tolerance. kiln-corpus fails a dynamic pair that took more than one compile.
set -euo pipefail

files=()
for model in "$@"; do
  files+=("tests/corpus/models/$model.jsonl")
done
client/corpus_runner/kiln-corpus "${files[@]}" --verify --kilnd "$PWD/server/kilnd" --worker "$PWD/compiler/kiln-worker" |
  tee "$TEST_TMPDIR/out.txt"
# Passed, all of them: a promised model that says UNIMPLEMENTED breaks the promise too.
tail -n 1 "$TEST_TMPDIR/out.txt" | grep -qE '^[1-9][0-9]* passed, 0 failed, 0 unimplemented$'
