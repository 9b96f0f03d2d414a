#!/usr/bin/env bash
# Runs clang-tidy on the files named, or on all.
#
# usage: ./kiln tidy [FILE.cc...]
# Generated headers must stand in bazel-bin: build first.
set -euo pipefail
cd "$(dirname "$0")/../.."

for file in "$@"; do
  if [[ $file == -* || ! -f $file ]]; then
    echo "kiln tidy: $file: expected a file of the project, by its path from the root" >&2
    exit 2
  fi
done
files=("$@")
[[ ${#files[@]} -gt 0 ]] || mapfile -t files < <(git ls-files '*.cc')
clang-tidy --quiet "${files[@]}" -- -std=c++20 -x c++ -iquote . -iquote bazel-bin \
  -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL -DSPDLOG_SHARED_LIB
