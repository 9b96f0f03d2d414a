#!/usr/bin/env bash
# Runs the readers of bytes from elsewhere under libFuzzer.
#
# usage: ./kiln fuzz [--seconds N] [NAME...]      (default: 15 seconds each, all)
# Names: artifact bundle config corpus_case frame graph guards object_code plan resp (tests/fuzz/NAME_target.cc).
# Two run at a time, under ASan and UBSan, each from its seeds and from what build/fuzz/NAME holds of earlier runs. An input
# that ends one is kept as build/fuzz/NAME-crash-..., and its log is printed. When it is mended, put the input into
# tests/fuzz/findings/NAME: an ordinary test feeds it from then on.
# Ends with "N targets, N findings". Exit status: 0 no findings, 1 some, 2 used wrongly.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=15
if [[ ${1:-} == --seconds ]]; then
  if [[ ! ${2:-} =~ ^[1-9][0-9]*$ ]]; then
    echo "kiln fuzz: --seconds: expected a number, got \"${2:-}\"" >&2
    exit 2
  fi
  seconds=$2
  shift 2
fi
known=(artifact bundle config corpus_case frame graph guards object_code plan resp)
names=("$@")
[[ ${#names[@]} -gt 0 ]] || names=("${known[@]}")
for name in "${names[@]}"; do
  if [[ " ${known[*]} " != *" $name "* ]]; then
    echo "kiln fuzz: there is no \"$name\"; one of ${known[*]}" >&2
    exit 2
  fi
done

deploy/install_deps.sh
room=tests/fuzz
targets=()
for name in "${names[@]}"; do targets+=("//$room:${name}_fuzzer"); done
bazel build --config=fuzz "${targets[@]}"
folder=$(bazel info --config=fuzz bazel-bin)/$room
mkdir -p build/fuzz

# One target for $seconds: its log's name is printed when it found something.
run() {
  local name=$1 corpus=build/fuzz/$1 log=build/fuzz/$1.log
  local findings=()
  mkdir -p "$corpus"
  [[ ! -d $room/findings/$name ]] || findings=("$room/findings/$name")
  if KILN_FUZZ_SEEDS=$corpus "$folder/${name}_fuzzer" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -max_len=65536 -print_final_stats=1 -artifact_prefix="build/fuzz/$name-" "$corpus" "${findings[@]}" > "$log" 2>&1; then
    echo "$name: $(awk '/number_of_executed_units/ {print $2}' "$log") inputs, no finding"
  else
    echo "$name: FOUND something: $log"
    tail -n 40 "$log" >&2
    return 1
  fi
}
export -f run
export folder seconds room

found=$(mktemp)
trap 'rm -f "$found"' EXIT
printf '%s\n' "${names[@]}" | xargs -P 2 -I {} bash -c 'run {} || echo {} >> '"$found"
echo "${#names[@]} targets, $(wc -l < "$found") findings"
[[ ! -s $found ]]
