#!/usr/bin/env bash
# Builds Kiln, starts a daemon and shows the main job: models compiled, run and compared with PyTorch.
#
# usage: ./kiln demo
#        ./kiln demo cluster
# With "cluster": three daemons behind TLS, certificates and tokens that share a Redis cluster over mutual TLS; one is
# killed, a token revoked. It takes about a minute, and leaves nothing behind.
#
# What the daemon compiled stays in build/demo, so the second time most of it comes from there; remove the folder to see
# it all compiled again.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ $# -ne 1 || $1 != cluster ]] || exec deploy/demo_cluster.sh
[[ $# -eq 0 ]] || { echo "kiln demo: takes nothing or \"cluster\", \"$*\" was found" >&2; exit 2; }
root=$PWD

source deploy/say.sh

say "1. What Kiln is built with"
deploy/install_deps.sh
source deploy/build.sh
source deploy/nvrtc_environment.sh

say "2. Build"
build //server:kilnd //compiler:kiln-worker //client/corpus_runner:kiln-corpus //client/compilectl:compilectl
corpus=$root/bazel-bin/client/corpus_runner/kiln-corpus
models=$root/tests/corpus/models

# The daemon lives as long as this script; what it compiled stays in build/demo.
data=$root/build/demo
mkdir -p "$data"
folder=$(mktemp -d /tmp/kiln-demo-XXXXXX)
socket=$folder/kilnd.sock
daemon=
finish() {
  [[ -z $daemon ]] || { kill "$daemon" 2>/dev/null && wait "$daemon" 2>/dev/null; } || true
  rm -rf "$folder"
}
trap finish EXIT
trap 'printf "\nkiln demo: stopped; ./kiln demo goes on with what build/demo holds\n" >&2; exit 130' INT TERM
ctl() { bazel-bin/client/compilectl/compilectl --socket "$socket" "$@"; }
# told PYTHON: runs it on what compilectl said, as "said"; Ctrl-C ends it without a word.
told() { python3 -c "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); import json, sys; said = json.load(sys.stdin); $1"; }
# The value of one of the daemon's counters.
count() { ctl stats -o json | told "print(said['counters'].get('$1', 0))"; }

say "3. kilnd: Unix socket, RocksDB in build/demo, a worker a core"
bazel-bin/server/kilnd --socket "$socket" --data-folder "$data" >"$folder/kilnd.log" 2>&1 &
daemon=$!
for _ in $(seq 100); do
  ctl version 2>/dev/null | grep -q '^kilnd  *[0-9]' && break
  kill -0 "$daemon" 2>/dev/null || { cat "$folder/kilnd.log" >&2; exit 1; }
  sleep 0.1
done
ctl workers

# Compiles and runs the demo's models, says what is under way, and prints a table: forward and backward of GPT-2's
# training, ResNet inference.
failed=0
run() {
  local report=$folder/$1.json
  "$corpus" "$models/gpt2_train.jsonl" "$models/resnet_infer.jsonl" --daemon "$socket" --progress --device "$2" \
    --report "$report" >"$folder/$1.txt" || failed=1
  [[ ! -f $report ]] || python3 deploy/demo_table.py "$report"
}

say "4. GPT-2 training and ResNet inference on the CPU, against PyTorch's stored results"
run cpu cpu

say "5. The same graphs as sm_90 cubins (NVRTC; no GPU needed)"
nvrtc=$(ctl workers -o json | told 'print(*(t["path"] for t in said["toolchains"] if t["name"] == "nvrtc"))')
if [[ -z $nvrtc ]]; then
  echo "left out: NVRTC, the compiler for CUDA, is not here; the CPU needs none of it, and ./kiln doctor says how to get it"
else
  run cuda cuda-compile
fi
if [[ -n $nvrtc ]] && compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  say "   This machine has a GPU: the same, run on it"
  run gpu cuda
fi

say "6. A second client process finds everything in the cache"
before=$(count plans)
run again cpu
compiles=$(($(count plans) - before))
echo "the daemon compiled $compiles graphs"
[[ $compiles -eq 0 ]] || failed=1

say "7. 32 clients ask for one cold key at once"
tag=demo-$$-$(date +%s)
before=$(count plans)
clients=()
for _ in $(seq 32); do
  "$corpus" "$models/mlp_layernorm_train.jsonl" --case mlp_layernorm_train.fwd0 --cache-tag "$tag" \
    --daemon "$socket" >/dev/null &
  clients+=($!)
done
served=0
for client in "${clients[@]}"; do
  wait "$client" && served=$((served + 1))
  [[ ! -t 1 ]] || printf '\r%d of %d clients served' "$served" "${#clients[@]}"
done
[[ ! -t 1 ]] || printf '\r\033[K'
compiles=$(($(count plans) - before))
echo "clients served: $served, compiles: $compiles"
[[ $served -eq 32 && $compiles -eq 1 ]] || failed=1

say "8. A worker is killed in the middle of a job"
# Compiles of known kernels are over in a blink: the workers are stopped, so that the job is surely under way.
mapfile -t workers < <(ctl workers -o json | told 'print(*(w["pid"] for w in said["workers"]), sep="\n")')
kill -STOP "${workers[@]}"
"$corpus" "$models/gpt2_train.jsonl" --cache-tag "$tag-kill" --daemon "$socket" --progress >"$folder/kill.txt" &
client=$!
pid=$(python3 deploy/busy_worker.py "$socket" bazel-bin/client/compilectl/compilectl)
[[ -z $pid ]] || kill -KILL "$pid"
kill -CONT "${workers[@]}" 2>/dev/null || true
wait "$client" && answer=came || answer="did not come"
tail -n 1 "$folder/kill.txt"
died=$(count workers.died)
echo "killed process ${pid:-none}; the answer $answer; workers that died: $died, jobs given to another: $(count workers.retried)"
[[ $died -ge 1 && $answer == came ]] || failed=1

say "9. What the daemon counted"
ctl stats | grep -Ev ' 0$'

say "How to go on"
cat <<TEXT
  ./kiln corpus tests/corpus/models        every model of the corpus
  ./kiln bench kernels                     kernels a graph, against Inductor
  ./kiln test                              all tests
  ./kiln daemon                            a daemon of your own; ./kiln ctl looks at it
  ./kiln wheel                             torch.compile(model, backend="kiln"): client/python/README.md
  README.md                                how to use the client, from C++ and from C
TEXT
if [[ $failed -ne 0 ]]; then
  echo
  echo "kiln demo: something above is not as it should be" >&2
  grep -hE '^(WRONG|FAILED|UNIMPLEMENTED)' "$folder"/*.txt >&2 || true
  exit 1
fi
