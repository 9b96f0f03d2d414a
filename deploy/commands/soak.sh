#!/usr/bin/env bash
# Runs the random tests with new seeds, round after round, for as long as asked.
#
# usage: ./kiln soak [--minutes N] [--seed FIRST] [NAME...]      (default: 60 minutes, a seed of the day, all)
#   nests       200 random nests a round in every form of every mapping, CPU and CUDA
#   kernels     225 random graphs a round through the compiler, the host's compiler and the runtime, and as many nests in each
#               mapping of the CPU
#   graphs      500 random graphs a round at every level of the compiler, interpreted
#   kills       1,000 times kill -9 of a daemon under load a round: what it had acknowledged must be there; tells the longest
#               start beside its bar
#   far         one bit flipped in each of 10,000 records a round in a Redis, and in as many at a peer: none may be served
#   partitions  the tests of partitions, with a client that is cut off for 105 seconds; takes no seed
#   sanitizers  ./kiln test --asan --service, under ASan and UBSan, then ./kiln test --tsan; takes no seed
#   fuzz        five minutes a round of each target of ./kiln fuzz, which go on from what earlier rounds found; takes no seed
# The first seed is that of the day (20260131000000), so that every day tries others; what fails is printed with
# its seed, and `--seed` repeats it. A line a round says what ran, from which seed on, and for how long.
# Exit status: 0 nothing failed, 1 something did, 2 used wrongly.
# These are long forms of tests that `./kiln test` runs with a few seeds.
set -euo pipefail
cd "$(dirname "$0")/../.."

minutes=60
seed=$(date +%Y%m%d000000)
while [[ ${1:-} == --* ]]; do
  if [[ ! ${2:-} =~ ^[1-9][0-9]*$ ]]; then
    echo "kiln soak: $1: expected a number, got \"${2:-}\"" >&2
    exit 2
  fi
  case $1 in
    --minutes) minutes=$2 ;;
    --seed) seed=$2 ;;
    *)
      echo "kiln soak: $1 is not known; --minutes or --seed" >&2
      exit 2
      ;;
  esac
  shift 2
done

# Of each name: its target, and how many seeds or nests it is given a round.
declare -A targets=(
  [nests]=//tests/compiler:random_nests_test
  [kernels]=//tests/compiler:random_kernels_test
  [graphs]=//tests/compiler/schedule:random_graphs_test
  [kills]=//tests/server:kill_test
  [far]=//tests/cache/far:flipped_far_test
  [partitions]=//tests/server:partition_test
)
declare -A counts=([nests]=200 [kernels]=225 [graphs]=500 [kills]=1000 [far]=10000)
names=("$@")
[[ ${#names[@]} -gt 0 ]] || names=(nests kernels graphs kills far partitions sanitizers fuzz)
for name in "${names[@]}"; do
  if [[ -z ${targets[$name]:-} && $name != fuzz && $name != sanitizers ]]; then
    echo "kiln soak: there is no \"$name\"; nests, kernels, graphs, kills, far, partitions, sanitizers or fuzz" >&2
    exit 2
  fi
done

deploy/install_deps.sh
source deploy/nvrtc_environment.sh
environment=()
if nvrtc_stands; then environment+=(--test_env=KILN_NVRTC_IS_DUE=1); fi
if [[ -n ${KILN_CUDA_LIBRARY_PATH:-} ]]; then
  environment+=("--test_env=KILN_CUDA_LIBRARY_PATH=$KILN_CUDA_LIBRARY_PATH")
fi

status=0
round=1
while [[ $SECONDS -lt $((minutes * 60)) ]]; do
  for name in "${names[@]}"; do
    begin=$SECONDS
    result=ok
    if [[ $name == fuzz ]]; then
      deploy/commands/fuzz.sh --seconds 300 >&2 || result=FAILED status=1
      echo "round $round: fuzz: $result in $((SECONDS - begin)) s"
      continue
    fi
    if [[ $name == sanitizers ]]; then
      deploy/commands/test.sh --asan --service >&2 || result=FAILED status=1
      deploy/commands/test.sh --tsan >&2 || result=FAILED status=1
      echo "round $round: sanitizers: $result in $((SECONDS - begin)) s"
      continue
    fi
    arguments=(--test_arg="$seed" --test_arg="${counts[$name]:-}")
    [[ $name != partitions ]] || arguments=(--test_arg=105)
    bazel test "${environment[@]}" --nocache_test_results --test_timeout=86400 \
      "${arguments[@]}" "${targets[$name]}" >&2 || result=FAILED status=1
    if [[ $name == kills ]]; then grep -hE ' kills, |^exec to SERVING' bazel-testlogs/tests/server/kill_test/test.log || true; fi
    if [[ $name == far ]]; then grep -h ' flipped bit, ' bazel-testlogs/tests/cache/far/flipped_far_test/test.log || true; fi
    echo "round $round: $name from seed $seed: $result in $((SECONDS - begin)) s"
  done
  round=$((round + 1))
  # Rounds share no seed: a nest that is rare is looked for among 40 seeds for each that is wanted.
  seed=$((seed + 10000))
done
exit "$status"
