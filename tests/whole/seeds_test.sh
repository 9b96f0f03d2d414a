#!/usr/bin/env bash
# What the seeds expect of their compiles (kernels, bytes, matches, padding) is so, but for the differences that a list names in
# kiln-corpus's own words. One that comes or goes fails the test until the list is mended.
#
# usage: seeds_test.sh DIFFERENCES.txt PATH...
set -euo pipefail
list=$1
shift

out=$TEST_TMPDIR/out.txt
client/corpus_runner/kiln-corpus "$@" --kilnd "$PWD/server/kilnd" --worker "$PWD/compiler/kiln-worker" >"$out" || true
cat "$out"
tail -n 1 "$out" | grep -qE '^[1-9][0-9]* passed, '
{ grep -E '^(WRONG|FAILED|UNIMPLEMENTED) ' "$out" || true; } | tr -s ' ' | LC_ALL=C sort >"$TEST_TMPDIR/found.txt"
diff -U 0 --label "$list" --label "what differs now" "$list" "$TEST_TMPDIR/found.txt"
