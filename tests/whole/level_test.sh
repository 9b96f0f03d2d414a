#!/usr/bin/env bash
# The whole road for an instruction level that the machine has but would not choose, or not on every machine. What code of a
# level may hold is cpu_levels_test's.
#
# usage: OK_IS_DUE=N level_test.sh LEVEL UNIMPLEMENTED.txt PATH...
set -euo pipefail
level=$1
shift
if [[ $level == x86-64-v4 ]]; then
  for feature in avx512f avx512bw avx512cd avx512dq avx512vl; do
    grep -qw "$feature" /proc/cpuinfo && continue
    cat >"$XML_OUTPUT_FILE" <<XML
<testsuites><testsuite name="level_test"><testcase name="$level" status="run">
<skipped message="no $feature on this machine"/></testcase></testsuite></testsuites>
XML
    exit 0
  done
fi
tests/whole/corpus_test.sh "$@" --arch "$level"
