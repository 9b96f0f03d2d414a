#!/usr/bin/env bash
# Artifact bytes to results of the first call, less a later call: tiny GPT-2 on the CPU (bar: 10 ms).
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/run_corpus.bash

run_corpus tests/corpus/models/gpt2_train.jsonl --repeat 20 --jobs 1 --threads 2
python3 bench/figures.py first_call "$report"
