#!/usr/bin/env bash
# Resident memory of kilnd after its start, and of its workers before and after a job.
set -euo pipefail
cd "$(dirname "$0")/.."

bazel build //client/corpus_runner:kiln-corpus //client/compilectl //server:kilnd //compiler:kiln-worker
folder=$(mktemp -d /tmp/kiln-bench-XXXXXX)
bazel-bin/server/kilnd --socket "$folder/s" --data-folder "$folder/data" >"$folder/log" 2>&1 &
daemon=$!
trap 'kill "$daemon" 2>/dev/null; wait "$daemon" 2>/dev/null || true; rm -rf "$folder"' EXIT
ctl() { bazel-bin/client/compilectl/compilectl --socket "$folder/s" "$@"; }
for _ in $(seq 100); do
  ctl stats >/dev/null 2>&1 && break
  sleep 0.1
done
resident() { awk '/^VmRSS/ {printf "%.1f MB\n", $2 / 1000}' "/proc/$1/status"; }
echo "kilnd after start: $(resident "$daemon")"
ctl workers
bazel-bin/client/corpus_runner/kiln-corpus tests/corpus/models/gpt2_train.jsonl --daemon "$folder/s" >/dev/null || true
echo "after GPT-2, forward and backward: kilnd $(resident "$daemon")"
ctl workers
