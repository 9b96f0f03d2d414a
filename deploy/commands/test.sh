#!/usr/bin/env bash
# Builds and runs all tests, or those named.
#
# usage: ./kiln test [--asan|--tsan] [--no-compiler] [--service] [TARGET...]
# Ends with "N passed, N failed", counted by test case, after a line on the skipped ones, if any.
#   --asan         all tests, or those named, under ASan and UBSan
#   --tsan         the tests tagged "tsan" under TSan; deploy/bazel/cc.bzl says which those are
#   --no-compiler  without the tests of the service and its clients that need the compiler, which takes longest to build (tagged
#                  "with_compiler"); the compiler's own tests are left out by naming others
#   --service      the tests of the service and its clients: of proto, cache, server and client
set -euo pipefail
cd "$(dirname "$0")/../.."

config=()
# Under a sanitizer all takes several times as long.
slow=(--build_tests_only --test_timeout=300,900,1800,3600)
tags=()
targets=()
while [[ ${1:-} == -* ]]; do
  if [[ $1 == --[at]san && ${#config[@]} -gt 0 ]]; then
    echo "kiln test: $1 stands beside another sanitizer; name one a run" >&2
    exit 2
  fi
  case $1 in
    --asan) config=(--config=asan "${slow[@]}") ;;
    --tsan) config=(--config=tsan "${slow[@]}") tags+=(tsan) ;;
    --no-compiler) tags+=(-with_compiler) ;;
    # As _SERVICE in deploy/bazel/cc.bzl.
    --service) targets+=(//tests/proto/... //tests/cache/... //tests/server/... //tests/client/...) ;;
    *)
      echo "kiln test: $1 is not known; --asan, --tsan, --no-compiler or --service" >&2
      exit 2
      ;;
  esac
  shift
done
[[ ${#tags[@]} -eq 0 ]] || config+=("--test_tag_filters=$(IFS=, && echo "${tags[*]}")")
targets+=("$@")
[[ ${#targets[@]} -gt 0 ]] || targets=(//...)

deploy/install_deps.sh
source deploy/build.sh
# Tests see no environment but this. Where NVRTC stands they fail without it; elsewhere they say that they are skipped.
source deploy/nvrtc_environment.sh
if nvrtc_stands; then
  config+=(--test_env=KILN_NVRTC_IS_DUE=1)
fi
if [[ -n ${KILN_CUDA_LIBRARY_PATH:-} ]]; then
  config+=("--test_env=KILN_CUDA_LIBRARY_PATH=$KILN_CUDA_LIBRARY_PATH")
fi

events=$(mktemp)
trap 'rm -f "$events"' EXIT

status=0
run_bazel test "${config[@]}" --keep_going --show_progress --show_progress_rate_limit=10 \
  --build_event_json_file="$events" "${targets[@]}" || status=$?
# 4: the build is good and no test was found. What bazel calls a failure is one.
[[ $status -ne 4 ]] || status=0
python3 deploy/count_tests.py "$events" "$status"
