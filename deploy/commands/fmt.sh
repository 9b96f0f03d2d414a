#!/usr/bin/env bash
# Formats every C++ file in place (clang-format).
#
# usage: ./kiln fmt [--check]
# --check changes nothing, says which files need it, and fails if any does.
set -euo pipefail
cd "$(dirname "$0")/../.."

if [[ $# -gt 1 || ${1:---check} != --check ]]; then
  echo "kiln fmt: expected nothing or --check, found \"$*\"" >&2
  exit 2
fi
if ! command -v clang-format >/dev/null; then
  echo "kiln fmt: clang-format is missing; type: sudo apt-get install clang-format" >&2
  exit 2
fi
mapfile -t files < <(git ls-files '*.h' '*.cc')
if [[ ${1:-} == --check ]]; then
  clang-format --dry-run --Werror "${files[@]}"
else
  clang-format -i "${files[@]}"
fi
