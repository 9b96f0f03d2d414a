#!/usr/bin/env bash
# The whole road for instruction levels that the machine has but would not choose, or not on every machine: the least that
# Kiln is used with, and the widest where it is there. What code of a level may hold is cpu_levels_test's.
#
# usage: OK_IS_DUE=N levels_test.sh UNIMPLEMENTED.txt PATH...
set -euo pipefail
tests/whole/corpus_test.sh "$@" --arch x86-64-v2
if grep -qw avx512f /proc/cpuinfo && grep -qw avx512bw /proc/cpuinfo && grep -qw avx512dq /proc/cpuinfo &&
  grep -qw avx512vl /proc/cpuinfo; then
  tests/whole/corpus_test.sh "$@" --arch x86-64-v4
else
  echo "x86-64-v4: this machine has no AVX-512"
fi
