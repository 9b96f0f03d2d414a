#!/usr/bin/env bash
# Compile and step time on the CPU, cold, against Inductor's C++ in the same run (KILN_TORCH_PYTHON).
#
# usage: ./kiln bench inductor [MODEL...]     (default: the eleven models that the tests promise; minutes)
# Environment: KILN_TORCH_PYTHON, the python of a virtual environment with torch 2.11; not set: build/torch, which
# ./kiln test-torch makes.
set -euo pipefail
cd "$(dirname "$0")/.."

torch_python=${KILN_TORCH_PYTHON:-}
[[ -n $torch_python || ! -x build/torch/bin/python ]] || torch_python=build/torch/bin/python
if [[ -z $torch_python ]]; then
  echo "kiln bench inductor: neither KILN_TORCH_PYTHON nor build/torch is there; ./kiln test-torch makes it" >&2
  exit 2
fi
[[ $# -gt 0 ]] || set -- mlp_layernorm_train mlp_batchnorm_train mlp_dynamic_train linear_cross_entropy_train bert_train \
  gpt2_train gpt2_dynamic_infer llama_train vit_train resnet_infer resnet_train
models=("$@")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bazel build //client/corpus_runner:kiln-corpus //server:kilnd //compiler:kiln-worker
corpus=bazel-bin/client/corpus_runner/kiln-corpus

files=()
plain=()
for model in "${models[@]}"; do
  files+=("tests/corpus/models/$model.jsonl")
  plain+=("$folder/plain/$model.jsonl")
done
"$corpus" "${files[@]}" --unpack "$folder/plain"
# A private daemon each time: every cache is empty.
"$corpus" "${files[@]}" --repeat 20 --jobs 1 --threads 2 --report "$folder/kiln.json"
"$torch_python" bench/peer_inductor.py --device cpu --threads 2 "${plain[@]}" | tee "$folder/inductor.jsonl"
python3 bench/ratio_table.py "$folder/kiln.json" "$folder/inductor.jsonl"
