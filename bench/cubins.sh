#!/usr/bin/env bash
# Graph to artifact with all cubins, daemon up, all caches empty: full/gpt2_train_bf16 (bars: 8 s on 2 cores, 1.5 s on 16).
set -euo pipefail
cd "$(dirname "$0")/.."
source bench/run_corpus.bash

run_corpus tests/corpus/full/gpt2_train_bf16.jsonl --device cuda-compile
python3 bench/figures.py cubins "$report"
