#!/usr/bin/env bash
# ./kiln demo on a machine without NVRTC: the step for CUDA is left out in a line, the rest is shown, and that is no failure.
#
# In a copy of the tree's scripts over this test's own binaries, with a small graph in the place of each model.
set -u
fail() {
  echo "$1"
  cat "$TEST_TMPDIR/out" "$TEST_TMPDIR/err"
  exit 1
}

tree=$TEST_TMPDIR/tree
models=$tree/tests/corpus/models
mkdir -p "$tree/deploy" "$models" "$TEST_TMPDIR/bin" "$TEST_TMPDIR/corpus"
cp -rL deploy/commands deploy/*.sh deploy/*.py "$tree/deploy/"
ln -s "$PWD" "$tree/bazel-bin"
for stand_in in 'bazel exit 0' 'dpkg-query echo installed'; do
  printf '#!/bin/sh\n%s\n' "${stand_in#* }" >"$TEST_TMPDIR/bin/${stand_in%% *}"
done
chmod +x "$TEST_TMPDIR"/bin/*
export PATH=$TEST_TMPDIR/bin:$PATH

python3 tests/deploy/write_corpus.py "$TEST_TMPDIR/corpus" || fail "the corpus was not written"
for model in gpt2_train.fwd resnet_infer.fwd mlp_layernorm_train.fwd0; do
  sed "s/\"name\": \"right\"/\"name\": \"$model\"/" "$TEST_TMPDIR/corpus/right.jsonl" >"$models/${model%.*}.jsonl"
  cp "$TEST_TMPDIR/corpus/right.safetensors" "$models/${model%.*}.safetensors"
done

KILN_NVRTC=/nowhere bash "$tree/deploy/commands/demo.sh" >"$TEST_TMPDIR/out" 2>"$TEST_TMPDIR/err" || fail "ends with $?"
has() { [[ $(grep -cE "$1" "$TEST_TMPDIR/out") -eq $2 ]] || fail "\"$1\": found other than $2 lines"; }
has '^left out: NVRTC, the compiler for CUDA, is not here; the CPU needs none' 1
has '^2 of 2 graphs right' 2
has '^clients served: 32, compiles: 1' 1
has 'the answer came; workers that died: 1' 1
