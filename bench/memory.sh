#!/usr/bin/env bash
# Resident memory of kilnd after its start, and of its workers after a job (bars: 60 and 120 MB).
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
resident() { awk '/^VmRSS/ {print $2 / 1000}' "/proc/$1/status"; }
# The largest of the workers, in MB.
largest_worker() {
  ctl workers -o json |
    python3 -c 'import json,sys; print(max(w["resident_bytes"] for w in json.load(sys.stdin)["workers"]) / 1e6)'
}
# against WHAT MB BAR
against() { python3 bench/figures.py ratio "$1" "$2" bar "$3" MB; }

against "kilnd after its start" "$(resident "$daemon")" 60
against "a worker after its start" "$(largest_worker)" 120
for device in cpu cuda-compile; do
  bazel-bin/client/corpus_runner/kiln-corpus tests/corpus/models/gpt2_train.jsonl --device "$device" \
    --daemon "$folder/s" >/dev/null || true
  against "a worker after GPT-2, $device" "$(largest_worker)" 120
done
echo "kilnd after both: $(resident "$daemon") MB"
