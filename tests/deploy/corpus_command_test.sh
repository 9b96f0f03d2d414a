#!/usr/bin/env bash
# ./kiln corpus on a folder outside of the project: a line a case, the sum, the exit code.
#
# In a copy of the tree's scripts over this test's own binaries: a build within a test would wait for itself.
set -u
fail() {
  echo "$1"
  exit 1
}

tree=$TEST_TMPDIR/tree
mkdir -p "$tree/deploy" "$TEST_TMPDIR/bin"
cp -L kiln "$tree/"
cp -rL deploy/commands deploy/build.sh deploy/nvrtc_environment.sh "$tree/deploy/"
ln -s "$PWD" "$tree/bazel-bin"
# Stands in for bazel and keeps what it was asked for.
printf '#!/bin/sh\necho "$@" >>%s/asked\n' "$TEST_TMPDIR" >"$TEST_TMPDIR/bin/bazel"
chmod +x "$TEST_TMPDIR/bin/bazel"
export PATH=$TEST_TMPDIR/bin:$PATH

outside=$(mktemp -d /tmp/kiln-corpus-test-XXXXXX)
trap 'rm -rf "$outside"' EXIT
python3 tests/deploy/write_corpus.py "$outside" || fail "the corpus was not written"

# check WORDS...: runs them from another folder and keeps what they print.
run() {
  (cd "$outside" && "$tree/kiln" corpus "$@" >"$TEST_TMPDIR/out" 2>"$TEST_TMPDIR/err")
}
has() { grep -qE "$1" "$TEST_TMPDIR/out" || fail "no line $1 in: $(cat "$TEST_TMPDIR/out" "$TEST_TMPDIR/err")"; }

run "$outside"
[[ $? -eq 1 ]] || fail "a wrong case is not exit code 1: $(cat "$TEST_TMPDIR/out" "$TEST_TMPDIR/err")"
has '^ok  *right  '
has '^WRONG  *wrong  .*output 0: \[1\]: 2, expected 3, off by 1, allowed '
has '^UNIMPLEMENTED  *unknown  .*aten\.kiln_knows_no_such\.default'
[[ $(tail -n 1 "$TEST_TMPDIR/out") == "1 passed, 1 failed, 1 unimplemented" ]] || fail "the sum: $(cat "$TEST_TMPDIR/out")"
grep -q 'build .*//client/corpus_runner:kiln-corpus' "$TEST_TMPDIR/asked" || fail "nothing was built"

# A relative path means where the caller stands. An operator that is missing is no failure.
run right.jsonl unknown.jsonl --local || fail "nothing failed, and the exit code is not 0: $(cat "$TEST_TMPDIR/out" "$TEST_TMPDIR/err")"
[[ $(tail -n 1 "$TEST_TMPDIR/out") == "1 passed, 0 failed, 1 unimplemented" ]] || fail "the sum: $(cat "$TEST_TMPDIR/out")"

rm "$TEST_TMPDIR/asked"
run no_such_file.jsonl
[[ $? -eq 2 ]] || fail "a file that is not there is not exit code 2"
grep -q 'kiln corpus: no_such_file.jsonl: no such file or folder' "$TEST_TMPDIR/err" || fail "the error: $(cat "$TEST_TMPDIR/err")"
[[ ! -e $TEST_TMPDIR/asked ]] || fail "a build ran before the path was refused: $(cat "$TEST_TMPDIR/asked")"
run right.jsonl --device tpu
[[ $? -eq 2 ]] || fail "an unknown device is not exit code 2"
run right.jsonl --nosuch
[[ $? -eq 2 ]] || fail "an unknown option is not exit code 2"
