#!/usr/bin/env bash
# Builds and runs all tests, or those named.
#
# usage: ./kiln test [--asan|--tsan|--tsan-soak] [TARGET...]
# Ends with "N passed, N failed", counted by test case, after a line on the skipped ones, if any. --tsan runs the tests tagged "tsan",
# --tsan-soak also those tagged "tsan_soak", which build the compiler under TSan. deploy/bazel/cc.bzl says which those are.
set -euo pipefail
cd "$(dirname "$0")/../.."

config=()
# Under a sanitizer all takes several times as long.
slow=(--build_tests_only --test_timeout=300,900,1800,3600)
case ${1:-} in
  --asan)
    config=(--config=asan "${slow[@]}")
    shift
    ;;
  --tsan)
    config=(--config=tsan --test_tag_filters=tsan "${slow[@]}")
    shift
    ;;
  --tsan-soak)
    config=(--config=tsan --test_tag_filters=tsan,tsan_soak "${slow[@]}")
    shift
    ;;
  -*)
    echo "kiln test: $1 is not known; --asan, --tsan or --tsan-soak" >&2
    exit 2
    ;;
esac
targets=("$@")
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
