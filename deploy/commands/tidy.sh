#!/usr/bin/env bash
# Runs clang-tidy on the files named, or on all: ./kiln tidy [FILE.cc...]
#
# Generated headers must stand in bazel-bin: build first.
set -euo pipefail
cd "$(dirname "$0")/../.."

files=("$@")
[[ ${#files[@]} -gt 0 ]] || mapfile -t files < <(git ls-files '*.cc')
clang-tidy --quiet "${files[@]}" -- -std=c++20 -x c++ -iquote . -iquote bazel-bin \
  -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL -DSPDLOG_SHARED_LIB
