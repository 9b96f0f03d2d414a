#!/usr/bin/env bash
# What `./kiln demo cluster` runs: three daemons behind TLS, certificates and tokens that share a Redis cluster of six
# nodes over mutual TLS, a cold model from eight clients, a daemon killed, a token revoked, a miss explained. All of it is
# checked, and nothing stays.
set -euo pipefail
cd "$(dirname "$0")/.."

source deploy/say.sh

say "1. Build"
deploy/install_deps.sh
source deploy/build.sh
build //server:kilnd //compiler:kiln-worker //client/corpus_runner:kiln-corpus //client/compilectl:compilectl
corpus=bazel-bin/client/corpus_runner/kiln-corpus
models=tests/corpus/models

folder=$(mktemp -d /tmp/kiln-cluster-XXXXXX)
declare -A pids=() # of the daemons and Redis nodes that run, by name
# stop SIGNAL NAME...: until they are gone. The shell is not to tell of each (disown), so it cannot wait for them.
stop() {
  local name
  for name in "${@:2}"; do
    ! kill -"$1" "${pids[$name]}" 2>/dev/null || while kill -0 "${pids[$name]}" 2>/dev/null; do sleep 0.05; done
    unset "pids[$name]"
  done
}
finish() {
  stop KILL "${!pids[@]}"
  wait # for clients: they end without their daemons
  rm -rf "$folder"
}
trap finish EXIT
trap 'printf "\nkiln demo: stopped\n" >&2; exit 130' INT TERM

# check STATEMENT COMMAND...: the statement holds if the command says so. All are listed at the end.
statements=()
failed=0
check() {
  local statement=$1
  shift
  if "$@"; then
    statements+=("holds   $statement")
  else
    statements+=("FAILED  $statement")
    failed=1
  fi
}
# unseen STATEMENT TIMES: this run cannot show it.
unseen() {
  statements+=("UNSEEN  $1: Redis did not answer within its budget $2 times, since this machine is busy")
}
# until_so WHAT COMMAND...: asks for a minute.
until_so() {
  local what=$1
  shift
  for _ in $(seq 600); do
    ! "$@" >/dev/null 2>&1 || return 0
    sleep 0.1
  done
  echo "kiln demo: $what: not so after a minute; see $(tail -n 3 "$folder"/*/log 2>/dev/null)" >&2
  exit 1
}
json() { python3 -c "import json, sys; said = json.load(sys.stdin); $1"; }
# ctl DAEMON WORD...
ctl() { bazel-bin/client/compilectl/compilectl --socket "$folder/$1/kilnd.sock" "${@:2}"; }
# count DAEMON COUNTER
count() { ctl "$1" stats -o json | json "print(said['counters'].get('$2', 0))"; }
# total COUNTER: over all daemons that run.
total() {
  local sum=0 daemon
  for daemon in $daemons; do
    sum=$((sum + $(count "$daemon" "$1")))
  done
  echo "$sum"
}

# Nine ports that are free, and for Redis the ones 10,000 above them too.
mapfile -t ports < <(python3 deploy/free_ports.py 9)

openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj "/CN=demo CA" -keyout "$folder/ca.key" -out "$folder/ca.crt" \
  2>/dev/null
# certify FOLDER NAME: a certificate and its key there, FOLDER/tls.crt and tls.key, good for NAME and this machine.
certify() {
  mkdir -p -m 700 "$1"
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$2" -keyout "$1/tls.key" -out "$1/tls.csr" 2>/dev/null
  openssl x509 -req -in "$1/tls.csr" -CA "$folder/ca.crt" -CAkey "$folder/ca.key" -CAcreateserial -days 1 \
    -extfile <(echo "subjectAltName = DNS:$2, IP:127.0.0.1") -out "$1/tls.crt" 2>/dev/null
}

say "2. Six Redis nodes become a cluster, over mutual TLS: three primaries, a replica each"
certify "$folder/operator" operator.demo
redis_cli() {
  redis-cli --tls --cacert "$folder/ca.crt" --cert "$folder/operator/tls.crt" --key "$folder/operator/tls.key" "$@"
}
for i in 0 1 2 3 4 5; do
  certify "$folder/redis$i" "redis$i.demo"
  redis-server --bind 127.0.0.1 --port 0 --tls-port "${ports[i]}" --dir "$folder/redis$i" --save "" --appendonly no \
    --tls-cert-file "$folder/redis$i/tls.crt" --tls-key-file "$folder/redis$i/tls.key" \
    --tls-ca-cert-file "$folder/ca.crt" --tls-auth-clients yes --tls-cluster yes --tls-replication yes \
    --cluster-enabled yes --cluster-node-timeout 1000 >"$folder/redis$i/log" 2>&1 &
  pids[redis$i]=$!
  disown
  until_so "redis$i answers" redis_cli -p "${ports[i]}" ping
done
mapfile -t nodes < <(printf '127.0.0.1:%s\n' "${ports[@]:0:6}")
redis_cli --cluster create "${nodes[@]}" --cluster-replicas 1 --cluster-yes >"$folder/create.txt"
sound() { redis_cli -p "$1" cluster info | grep -q '^cluster_state:ok'; }
for i in 0 1 2 3 4 5; do until_so "redis$i knows of a sound cluster" sound "${ports[i]}"; done
redis_cli -p "${ports[0]}" cluster info | tr -d '\r' | grep -E '^cluster_(state|slots_assigned|known_nodes|size):'

say "3. Three daemons: each with a disk, a signing key, a certificate and tokens of its own"
daemons="a b c"
declare -A port=([a]=${ports[6]} [b]=${ports[7]} [c]=${ports[8]})
# start DAEMON: with what its kilnd.toml says. SERVING once it answers.
start() {
  bazel-bin/server/kilnd --config "$folder/$1/kilnd.toml" >>"$folder/$1/log" 2>&1 &
  pids[$1]=$!
  disown
  until_so "daemon $1 answers" ctl "$1" keys list
}
for d in $daemons; do
  certify "$folder/$d" "kilnd-$d.demo"
  cat >"$folder/$d/kilnd.toml" <<TOML
[listen]
socket = "$folder/$d/kilnd.sock"
tcp = "127.0.0.1:${port[$d]}"
tls_certificate = "$folder/$d/tls.crt"
tls_key = "$folder/$d/tls.key"
tls_client_ca = "$folder/ca.crt"
[[access]]
who = "cert:trainer.demo"
role = "submitter"
namespaces = ["team-a"]
[storage]
data_folder = "$folder/$d/data"
[workers]
count = 2
[far]
addresses = ["${nodes[0]}", "${nodes[1]}", "${nodes[2]}"]
tls_ca = "$folder/ca.crt"
tls_certificate = "$folder/$d/tls.crt"
tls_key = "$folder/$d/tls.key"
budget = "200ms"
TOML
  start "$d"
done
certify "$folder/trainer" trainer.demo
# What one signed the others serve: each is told the keys of all, and started again with them.
keys=()
for d in $daemons; do keys+=("$(ctl "$d" version -o json | json "print(said['public_key'])")"); done
for d in $daemons; do
  printf '[keys]\ntrusted = ["%s", "%s", "%s"]\n' "${keys[@]}" >>"$folder/$d/kilnd.toml"
  stop TERM "$d"
  start "$d"
  for team in team-a team-b; do
    (umask 077 && ctl "$d" tokens add "$team-rank" --namespace "$team" --for 1d >"$folder/$d/$team.token")
  done
  echo "daemon $d: tls://127.0.0.1:${port[$d]}, signs with ${keys[$(($(printf '%d' "'$d") - 97))]:0:16}"
done
ctl a tokens ls

# client NAME NAMESPACE WHO "DAEMON..." WORD...: a client process that knows these daemons, and compiles, runs and
# compares with PyTorch's results what the words name; what it says goes to NAME.txt. WHO: the token that it shows, or
# "cert", the trainer's certificate.
client() {
  local name=$1 d
  local words=("${@:5}" --namespace "$2" --tls-ca "$folder/ca.crt" --threads 1)
  [[ $3 != cert ]] || words+=(--tls-certificate "$folder/trainer/tls.crt" --tls-key "$folder/trainer/tls.key")
  for d in $4; do
    words+=(--tcp "127.0.0.1:${port[$d]}")
    [[ $3 == cert ]] || words+=(--token-file "$folder/$d/$3.token")
  done
  for d in "${keys[@]}"; do words+=(--public-key "$d"); done
  "$corpus" "${words[@]}" >"$folder/$name.txt" 2>&1
}
# await: sets `right`, how many of `clients` had PyTorch's results.
await() {
  local pid
  right=0
  for pid in "${clients[@]}"; do ! wait "$pid" || right=$((right + 1)); done
}
table() {
  printf '%-8s  %8s  %18s  %10s\n' DAEMON COMPILED "WAITED FOR ANOTHER" "FROM REDIS"
  local d
  for d in $daemons; do
    printf '%-8s  %8s  %18s  %10s\n' "$d" "$(count "$d" plans)" "$(count "$d" lease.waited)" "$(count "$d" far.hits)"
  done
}

say "4. Eight clients of team-a send GPT-2's training step, which nobody has: four graphs"
# Six know one daemon alone, so that all three are asked for the same at once, and show a token; two know all, and show a
# certificate.
clients=()
for known in a b c a b c "a b c" "c a b"; do
  [[ $known == *" "* ]] && who=cert || who=team-a
  client "cold${#clients[@]}" team-a "$who" "$known" "$models/gpt2_train.jsonl" &
  clients+=($!)
done
await
compiles=$(total plans)
table
# A daemon that Redis did not answer in time compiles for itself, as it should: then a graph is compiled twice.
skipped=$(total lease.skipped)
echo "clients with PyTorch's results: $right of 8; compiles in the cluster: $compiles"
served=$(total far.hits)
echo "records of team-a that one daemon wrote and another served: $served"
check "records of team-a, written by one daemon, were served by another through Redis over mutual TLS" test "$served" -ge 1
check "eight clients of three daemons had their four graphs, right" test "$right" -eq 8
if [[ $skipped -eq 0 ]]; then
  check "each of the four graphs was compiled once in the cluster" test "$compiles" -eq 4
else
  unseen "each of the four graphs was compiled once in the cluster ($compiles compiles)" "$skipped"
  check "there was a compile more for each time that Redis did not answer, at most" \
    test "$compiles" -ge 4 -a "$compiles" -le $((4 + skipped))
fi

say "5. team-b sends the same: its artifacts are its own, the object code in them is shared"
before=$(total plans)
built=$(total units.built)
client shared team-b team-b "b" "$models/gpt2_train.jsonl" && right=1 || right=0
compiles=$(($(total plans) - before))
built=$(($(total units.built) - built))
echo "planned anew: $compiles graphs; object files built anew: $built"
check "nothing of team-a was served to team-b: four graphs were planned anew" test "$right-$compiles" = 1-4
check "of their object code none was built again" test "$built" -eq 0
client stranger team-b team-a "b" "$models/gpt2_train.jsonl" && right=1 || right=0
echo "What a holder of team-a's token is told who asks for team-b's artifacts:"
grep -m 1 -o 'PERMISSION_DENIED.*' "$folder/stranger.txt" | cut -c 1-200
check "a token of team-a's was refused in team-b" \
  test "$right-$(grep -c PERMISSION_DENIED "$folder/stranger.txt")" = 0-4

say "6. A daemon is killed (SIGKILL) while it compiles for four clients"
workers() { ctl "$1" workers -o json | json 'print(*(w["pid"] for w in said["workers"]))'; }
waiters() { ctl "$1" jobs -o json | json 'print(sum(job["waiters"] for job in said["jobs"]))'; }
# Compiles are over in a blink: the workers are stopped, so that the job is surely under way.
# shellcheck disable=SC2046 # one word a process
for d in $daemons; do kill -STOP $(workers "$d"); done
clients=()
for known in "a b c" "b c a" "c a b" "c b a"; do
  client "kill${#clients[@]}" team-a team-a "$known" "$models/mlp_layernorm_train.jsonl" &
  clients+=($!)
done
first=
found() {
  for d in $daemons; do
    [[ $(waiters "$d") -ne 4 ]] || first=$d
  done
  [[ -n $first ]]
}
until_so "all four clients wait at the same daemon" found
echo "all four wait at daemon $first, whatever the order in which they were told of the three"
stop KILL "$first"
daemons=${daemons/$first/}
# shellcheck disable=SC2046
for d in $daemons; do kill -CONT $(workers "$d"); done
await
table
echo "daemon $first was killed; clients with PyTorch's results: $right of 4"
check "four clients, told of the daemons in different orders, asked the same one" test -n "$first"
check "it was killed while they waited, and all four had their graphs, right" test "$right" -eq 4

say "7. Daemon $first comes back with an empty disk"
# Its signing key is gone with its disk. That of before is still trusted, so that what it wrote into Redis is served.
rm -r "$folder/$first/data"
start "$first"
client back team-a cert "$first" "$models/gpt2_train.jsonl" "$models/mlp_layernorm_train.jsonl" && right=1 || right=0
compiles=$(count "$first" plans)
late=$(($(count "$first" far.timeouts) + $(count "$first" far.breaker_open)))
printf '%-8s  %8s  %10s\n' DAEMON COMPILED "FROM REDIS" "$first" "$compiles" "$(count "$first" far.hits)"
far=$(count "$first" far.hits)
if [[ $late -eq 0 ]]; then
  check "with an empty disk it served six graphs, right, from Redis" \
    test "$right-$compiles" = 1-0 -a "$far" -ge 6
else
  unseen "with an empty disk it served six graphs from Redis ($compiles compiles)" "$late"
  check "it served six graphs, right, and compiled one for each time that Redis did not answer, at most" \
    test "$right" -eq 1 -a "$compiles" -le "$late" -a "$far" -ge $((6 - compiles))
fi

say "8. team-b's token is revoked"
read -r d _ <<<"$daemons"
client good team-b team-b "$d" "$models/gpt2_train.jsonl" && right=1 || right=0
check "before, its holder was served" test "$right" -eq 1
for each in $daemons; do
  echo "daemon $each: $(ctl "$each" tokens revoke team-b-rank)"
done
client revoked team-b team-b "$d" "$models/gpt2_train.jsonl" && right=1 || right=0
echo
echo "What its holder is told:"
tail -n 1 "$folder/revoked.txt" | cut -c 1-200
echo "The last lines of daemon $d's audit.log:"
tail -n 2 "$folder/$d/data/audit.log"
check "after, its holder was refused" test "$right-$(grep -c UNAUTHENTICATED "$folder/revoked.txt")" = 0-1
audited() {
  tail -n 2 "$folder/$d/data/audit.log" | tr '\n' ' ' |
    grep -q '"what":"revoke token","subject":"team-b-rank","outcome":"OK".*"outcome":"UNAUTHENTICATED"'
}
check "the audit log has the revocation, and then the refusal" audited

say "9. Why is this graph, of another namespace and for an older processor, not in the cache?"
ctl "$d" explain "$models/gpt2_train.jsonl:gpt2_train.fwd0" --arch x86-64-v2 | tee "$folder/explain.txt" || true
check "explain named the namespace as the first part that differs" \
  grep -q 'first difference: namespace' "$folder/explain.txt"
check "it named the target, and nothing else" test "$(grep -c DIFFERS "$folder/explain.txt")" -eq 2

say "What was checked"
printf '  %s\n' "${statements[@]}"
if [[ $failed -ne 0 ]]; then
  echo "kiln demo: something above is not as it should be" >&2
  exit 1
fi
