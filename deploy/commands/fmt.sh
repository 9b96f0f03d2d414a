#!/usr/bin/env bash
# Formats every C++ file in place (clang-format); with --check only says which ones need it.
set -euo pipefail
cd "$(dirname "$0")/../.."

mapfile -t files < <(git ls-files '*.h' '*.cc')
if [[ ${1:-} == --check ]]; then
  clang-format --dry-run --Werror "${files[@]}"
else
  clang-format -i "${files[@]}"
fi
