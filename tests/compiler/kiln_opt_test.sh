#!/usr/bin/env bash
# The program kiln-opt as people call it: levels it prints and reads back, runs against the reference, what it refuses and how.
set -euo pipefail

readonly OPT="$PWD/compiler/kiln-opt"
cd "$TEST_TMPDIR"
failed=0

fail() {
  echo "FAILED: $*" >&2
  failed=1
}

# expect CODE PATTERN ARGUMENTS...: its exit code, and a line of its output that matches.
expect() {
  local due="$1" pattern="$2" code=0
  shift 2
  "$OPT" "$@" > out.txt 2>&1 || code=$?
  [[ "$code" == "$due" ]] || fail "kiln-opt $*: exit code $code, due $due"
  grep -qE -- "$pattern" out.txt || fail "kiln-opt $*: no line like '$pattern' in: $(cat out.txt)"
}

cat > rows.ir <<'END'
graph @rows(N in [2, 64] = 6)(%x: f32[N, 8], %b: f32[8]) -> (%y) {
  %s = add.Tensor(%x, %b)
  %y = _softmax(%s, 1, false)
}
END

expect 0 '%amax = amax\(' rows.ir --emit=graph
expect 0 '^  nest amax \[i0 in s0, reduce i1 in 8\]' rows.ir --emit=loops
expect 0 '^  kernel kiln_per_fused_add_amax_sub_exp_sum_div_0 row' rows.ir --emit=kernels
expect 0 '^  launch k0 grid \[' rows.ir --emit=plan
expect 0 'void kiln_per_fused_' rows.ir --emit=cpu
expect 0 '__global__' rows.ir --emit=cuda

# Each level reads back what was printed of it.
for level in graph loops kernels plan; do
  "$OPT" rows.ir --emit="$level" > "$level.ir"
  "$OPT" "$level.ir" > again.ir || fail "$level is not read back"
  cmp -s "$level.ir" again.ir || fail "$level reads back as another text"
done
expect 0 '^  kernel kiln_per_fused' loops.ir plan_kernels
expect 0 'void kiln_per_fused' kernels.ir write_kernels

expect 0 'f32\[6, 8\]' rows.ir --run
expect 0 ' ms  functionalize' rows.ir --emit=graph --time

expect 2 'pass fold_nothing: not known; known are functionalize' rows.ir fold_nothing
expect 2 'found another level, due a loop program' rows.ir fuse_loops
expect 2 '--emit=ptx: due graph, loops, kernels, plan, cuda or cpu' rows.ir --emit=ptx
expect 2 'option --no-such: not known' rows.ir --no-such
expect 2 '--target=x86-64-v3 with --emit=cuda: found a level of processors, due' rows.ir --emit=cuda --target=x86-64-v3
expect 2 '--target=sm_90 with --emit=cpu: found a GPU architecture, due' rows.ir --emit=cpu --target=sm_90
expect 2 '--skip=nosuch: found no such pass, due one of functionalize' rows.ir --emit=graph --skip=nosuch
expect 2 '--skip=lower_graph: found no such pass' rows.ir --emit=loops --skip=lower_graph
expect 2 'found a folder, due a file' .
echo '{"name": "torn", "inputs": []}' > torn.jsonl
expect 2 "torn: found no key '[a-z]+', due one" torn.jsonl
echo '{"name": 7}' > odd.jsonl
expect 2 'corpus case line 1: found number, due string' odd.jsonl
expect 2 'FILE is missing' --run
expect 1 'nowhere.ir' nowhere.ir
expect 2 'sm_12345|target' rows.ir --target=sm_12345x
echo 'graph @bad()(%x: f32[2]) -> (%y) { %y = rely(%x) }' > bad.ir
expect 2 "line 1: found 'rely\(%x\) }', due an operator" bad.ir
sed 's/kernel kiln/colonel kiln/' kernels.ir > bad_plan.ir
expect 2 "line [0-9]+ column 3: found 'colonel kiln_per_fused_add_ama', due in, const" bad_plan.ir
sed 's/row vector 4/row vector 3/; s/row vector 8/row vector 3/' kernels.ir > broken_plan.ir
expect 1 'K5 at kiln_per_fused' broken_plan.ir

exit "$failed"
