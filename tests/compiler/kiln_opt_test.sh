#!/usr/bin/env bash
# The program kiln-opt as people call it: levels it prints and reads back, runs against the reference, what it refuses and how.
set -euo pipefail

readonly OPT="$PWD/compiler/kiln-opt"
readonly CORPUS="$PWD/tests/corpus"
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
expect 0 '^  kernel kiln_red_fused_add_amax_div_exp_sub_sum_0 cpu rows accumulators 1 block 4096 grain 16384 \{$' rows.ir --emit=kernels
expect 0 '^  kernel kiln_per_fused_add_amax_div_exp_sub_sum_0 cuda rows vector [24] lanes .* held [1-9].* parts 1 peel 0 stages 0 stretch 0 cluster 1 blocks [0-9]+ alone [01] whole (0|40) floats 0 once 0 branch 0 joined 0 \{$' \
  rows.ir --emit=kernels --target=sm_90
expect 0 '^  launch k0 grid \[' rows.ir --emit=plan
expect 0 'void kiln_red_fused_' rows.ir --emit=cpu
expect 0 '__global__' rows.ir --emit=cuda

cat > long.ir <<'END'
graph @long()(%x: f32[16777216]) -> (%y) {
  %y = sum(%x)
}
END

# Each level reads back what was printed of it: of a GPU's blocks that share a sum too.
for case in long:sm_90 rows:sm_90 rows:x86-64-v3; do
  for level in graph loops kernels plan; do
    "$OPT" "${case%:*}.ir" --emit="$level" --target="${case#*:}" > "$level.ir"
    "$OPT" "$level.ir" > again.ir || fail "$level of $case is not read back"
    cmp -s "$level.ir" again.ir || fail "$level of $case reads back as another text"
  done
done
expect 0 '^  kernel kiln_red_fused' loops.ir plan_kernels
expect 0 'void kiln_red_fused' kernels.ir write_kernels
expect 0 '^  counters counters : i32\[1\]$' long.ir --emit=kernels --target=sm_90
expect 0 '^  kernel kiln_red_fused_sum_0 cuda rows .* workspace partials[0-9]+ counters \{$' long.ir --emit=kernels --target=sm_90
expect 0 '^  buffer b[0-9]+ "counters" counters bytes 4$' long.ir --emit=plan --target=sm_90

# The variants of each kernel with their prices, of which one has the star.
expect 0 '^kernel add\+amax\+sub\+exp\+sum\+div$' rows.ir --explain-tiling
expect 0 '^\* cpu rows accumulators 1 block 4096 grain 16384: [0-9.]+ us \(memory [0-9.]+, issue [0-9.]+, latency [0-9.]+; [0-9.]+ MB\)$' \
  rows.ir --explain-tiling
expect 0 '^  cpu columns strip 4 block 256 unroll 4 grain 16384: [0-9.]+ us \(' rows.ir --explain-tiling
[[ "$(grep -c '^\* ' out.txt)" == 1 ]] || fail "expected one star in: $(cat out.txt)"
expect 0 '^\* cuda rows vector .*: [0-9.]+ us \(memory .* [0-9]+ registers\)$' rows.ir --explain-tiling --target=sm_90
expect 0 '^  cuda serial threads 256 blocks [0-9]+: [0-9.]+ us \(' rows.ir --explain-tiling --target=sm_90
[[ "$(grep -c '^\* ' out.txt)" == 1 ]] || fail "expected one star in: $(cat out.txt)"
# Each variant is listed once, and is the only one with a star: a sum of a matrix and a transpose has two walks that could name the same one.
cat > turned.ir <<'END'
graph @turned()(%x: f32[11, 50257]) -> (%y, %z) {
  %y = add.Tensor(%x, %x)
  %t = t(%x)
  %z = clone(%t, memory_format=contiguous_format)
}
END
expect 0 '^  cuda points vector 1 unroll 1 ' turned.ir --explain-tiling --target=sm_90
[[ -z "$(sed -n 's/^[ *] \(cuda .*\): .*/\1/p' out.txt | sort | uniq -d)" ]] || fail "a variant is listed twice in: $(cat out.txt)"
# What it stars is what a plan has.
"$OPT" long.ir --explain-tiling --target=sm_90 | sed -n 's/^\* \(.*\): .*/\1/p' > star.txt
expect 0 " kiln_red_fused_sum_0 $(cat star.txt) workspace " long.ir --emit=kernels --target=sm_90
# Of symbolic rows too, where the choice relies on a guard: rows of up to eight times the hint stand in registers.
cat > open.ir <<'END'
graph @open(N in [2, 100000000] = 512)(%x: f32[64, N]) -> (%y) {
  %y = _softmax(%x, 1, false)
}
END
"$OPT" open.ir --explain-tiling --target=sm_90 | sed -n 's/^\* \(.* cluster [0-9]* blocks [0-9]* alone [01] .* joined [0-9]*\).*/\1/p' > open_star.txt
grep -q '^cuda rows .* held [1-9]' open_star.txt || fail "expected rows in registers in: $(cat open_star.txt)"
expect 0 "^  kernel kiln_per_fused_amax_div_exp_sub_sum_0 $(cat open_star.txt) \{$" open.ir --emit=kernels --target=sm_90

# A tuning decision stands above the price, before memory is placed; one that is out of date is ignored, and said so.
tuned() { "$OPT" long.ir --target=sm_90 "--tune=$1" "${@:2}" > out.txt || fail "kiln-opt long.ir --tune=$1"; }
"$OPT" long.ir --explain-tiling --target=sm_90 > out.txt
LONG="$(sed -n 's/^  key //p' out.txt)"
[[ "$LONG" == reduce/f32/2^0x2^24/*/sm_90 ]] || fail "expected a key in: $(cat out.txt)"
WHOLE="$(sed -n '/^  cuda rows .* parts 1 .*: /{s/^  \(cuda rows .* parts 1 .*\): .*/\1/p;q}' out.txt)"
tuned "$LONG $WHOLE" --explain-tiling
grep -q "^\* $WHOLE: " out.txt && grep -q "^  tuned: $WHOLE\$" out.txt || fail "expected $WHOLE in: $(cat out.txt)"
tuned "$LONG $WHOLE" --emit=kernels
grep -q " $WHOLE {" out.txt || fail "expected $WHOLE in: $(cat out.txt)"
! grep -q partials out.txt || fail "expected no workspace in: $(cat out.txt)"
tuned "$LONG cuda rows with wings" --explain-tiling
grep -q '^  ignored: tuning decision "cuda rows with wings": is none of ' out.txt || fail "expected a ground in: $(cat out.txt)"
grep -q "^\* $(cat star.txt): " out.txt || fail "expected $(cat star.txt) in: $(cat out.txt)"
expect 2 '--tune=nothing: expected a key of --explain-tiling, a blank and a variant' long.ir --tune=nothing

# A decision about no step of the graph is an error, at each level that decisions lead to.
for level in --explain-tiling --explain-fusion --explain-contraction --emit=kernels --emit=plan --emit=cuda; do
  expect 2 "--tune=addmm/x y z 3: found no step with the key addmm/x, expected one of ${LONG//^/\\^}\$" long.ir --target=sm_90 "--tune=addmm/x y z 3" "$level"
done
for level in --explain-fusion --emit=plan --emit=cuda; do tuned "$LONG $WHOLE" "$level"; done
expect 2 'found no step with the key addmm/x, as nothing is chosen here' long.ir "--tune=addmm/x y z 3" --emit=loops

# The pairs that share no kernel, each with its ground.
cat > apart.ir <<'END'
graph @apart()(%x: f32[64, 8]) -> (%z, %y) {
  %s = cumsum(%x, 1)
  %y = exp(%s)
  %m = _softmax(%x, 1, false)
  %z = flip(%m, [1])
}
END
for target in x86-64-v3 sm_90; do
  expect 0 '^cumsum \| exp: scan$' apart.ir --explain-fusion --target="$target"
done
expect 0 '^[a-z+]+ \| div\+flip: reads elsewhere, buf[0-9]+$' apart.ir --explain-fusion
"$OPT" rows.ir --explain-fusion > out.txt || fail "kiln-opt rows.ir --explain-fusion"
! grep -q ' | ' out.txt || fail "all of rows.ir is one kernel, but: $(cat out.txt)"

# The producers that stay, each with its ground.
cat > stays.ir <<'END'
graph @stays()(%x: f32[64, 64], %w: f32[64, 64]) -> (%a, %b, %c, %m) {
  %a = relu(%x)
  %b = neg(%a)
  %e = exp(%x)
  %c = flip(%e, [0])
  %t = t(%e)
  %d = mul.Tensor(%t, %e)
  %s = sum.dim_IntList(%d, [1])
  %m = mul.Tensor(%s, %w)
}
END
expect 0 '^relu not inlined: memory needed, ' stays.ir --explain-fusion
expect 0 '^[a-z+_]*sum not inlined: not pointwise$' stays.ir --explain-fusion

# One that is read by all rows of a matrix.
cat > costly.ir <<'END'
graph @costly()(%x: f32[4096], %w: f32[8192, 4096]) -> (%y) {
  %e = exp(%x)
  %y = mul.Tensor(%w, %e)
}
END
for target in x86-64-v3 sm_90; do
  expect 0 '^exp not inlined: costly to repeat, 1 loads, 1 operations, 1 costly, read 1 times, at 33554432 points of 4096, [0-9.]+ us against [0-9.]+$' \
    costly.ir --explain-fusion --target="$target"
done

# One that four kernels would compute again, which is more than to store it.
cat > shared.ir <<'END'
graph @shared()(%x: f32[4096, 4096], %y: f32[4096, 4096], %z: f32[4096, 4096]) -> (%a, %b, %c, %d) {
  %p = add.Tensor(%x, %y)
  %s = add.Tensor(%p, %z)
  %a = cumsum(%s, 1)
  %b = cumsum(%s, 0)
  %c = cumprod(%s, 1)
  %d = cumprod(%s, 0)
}
END
expect 0 '^add not inlined: saves too little, [0-9.]+ us against [0-9.]+$' shared.ir --explain-fusion --target=sm_90

"$OPT" stays.ir --explain-fusion --target=sm_90 > out.txt || fail "kiln-opt stays.ir --explain-fusion"
! grep -q '^exp not inlined' out.txt || fail "a GPU repeats exp, but: $(cat out.txt)"

# Options of the compile, by their names on the wire: padding is decided by them.
cat > padded.ir <<'END'
graph @padded() on cuda(%x: f32[64, 2047], %w: f32[2048, 30]) -> (%y) {
  %e = exp(%x)
  %p = constant_pad_nd(%e, [0, 1], 12345.0)
  %y = mm(%p, %w)
}
END
padded() { expect 0 "$1" padded.ir --target=sm_90 "${@:2}"; }
padded '^  buffer b[0-9]+ "buf[0-9]+" [a-z]+ bytes 524288 .*written b[0-9]+ f32 \[64, 2047\] strides \[2048, 1\] offset 0$' --emit=plan
padded 'nest constant_pad_nd \[i0 in 64, i1 in 2048\]' --emit=loops --options=no_inplace_padding=1
padded '= constant_pad_nd\(%w, \[0, 2' --emit=graph --options=force_shape_pad=1
"$OPT" padded.ir --target=sm_90 --emit=plan --options=no_inplace_padding=1 > out.txt || fail "kiln-opt padded.ir --options"
! grep -q ' written ' out.txt || fail "expected nothing in place in: $(cat out.txt)"

# A linear layer and cross-entropy at their true size: the gradient of the logits alone is padded in its own rows.
in_place() {
  local due="$1"
  shift
  "$OPT" "$CORPUS/full/seed_linear_and_cel.jsonl.zst" --emit=plan --target=sm_90 "$@" | grep ' written ' > out.txt || true
  [[ "$(cat out.txt)" =~ ^$due$ ]] || fail "kiln-opt seed_linear_and_cel.jsonl $*: due \"$due\" in: $(cat out.txt)"
}
in_place '' --case=seed_linear_and_cel.fwd0 --options=force_shape_pad=1
in_place '  buffer b[0-9]+ "buf[0-9]+" own bytes 3296722880 written b[0-9]+ bf16 \[32768, 50257\] strides \[50304, 1\] offset 0' \
  --case=seed_linear_and_cel.bwd0 --options=force_shape_pad=1
in_place '' --case=seed_linear_and_cel.bwd0 --options=force_shape_pad=1,no_inplace_padding=1

# A long sum: blocks share it unless the options forbid it.
cat > long_sum.ir <<'END'
graph @long_sum() on cuda(%x: f32[16777216]) -> (%y) {
  %y = sum(%x)
}
END
expect 0 'float\* p0, float\* p1, unsigned char\* w, unsigned\* counters\) \{$' long_sum.ir --emit=cuda --target=sm_90
expect 0 'float\* p0, float\* p1\) \{$' long_sum.ir --emit=cuda --target=sm_90 --options=no_split_reductions=1

expect 2 'no_such: there is no such option' padded.ir --options=no_such=1
expect 2 'force_shape_pad: found "2", expected 0 or 1' padded.ir --options=force_shape_pad=2
expect 2 'max_fusion_size: found 5000, expected at most 4096' padded.ir --options=max_fusion_size=5000
expect 2 'cache_tag: found "x", expected a number' padded.ir --options=cache_tag=x

expect 0 'f32\[6, 8\]' rows.ir --run
expect 0 ' ms  functionalize' rows.ir --emit=graph --time

expect 2 'pass fold_nothing: not known; known are functionalize' rows.ir fold_nothing
expect 2 'found another level, expected a loop program' rows.ir fuse_loops
expect 2 '--emit=ptx: expected graph, loops, kernels, plan, cuda or cpu' rows.ir --emit=ptx
expect 2 'option --no-such: not known' rows.ir --no-such
expect 2 '--target=x86-64-v3 with --emit=cuda: found a level of processors, expected' rows.ir --emit=cuda --target=x86-64-v3
expect 2 '--target=sm_90 with --emit=cpu: found a GPU architecture, expected' rows.ir --emit=cpu --target=sm_90
expect 2 '--skip=nosuch: found no such pass, expected one of functionalize' rows.ir --emit=graph --skip=nosuch
expect 2 '--skip=lower_graph: found no such pass' rows.ir --emit=loops --skip=lower_graph
expect 2 'found a folder, expected a file' .
echo '{"name": "torn", "inputs": []}' > torn.jsonl
expect 2 "torn: missing key '[a-z]+'" torn.jsonl
echo '{"name": 7}' > odd.jsonl
expect 2 'corpus case line 1: found number, expected string' odd.jsonl
expect 2 'FILE is missing' --run
expect 2 'nowhere.ir: no such file' nowhere.ir
expect 2 'case other: not in ' --case=other "$CORPUS/full/seed_linear_and_cel.jsonl.zst"
cp rows.ir locked.ir
chmod 000 locked.ir
[[ -r locked.ir ]] || expect 2 'locked.ir: no permission to read it' locked.ir
expect 2 '--seed=abc: found "abc", expected a number of at least 0' rows.ir --run --seed=abc
expect 2 '--explain-fusion: found explain-tiling before it, expected one of --emit and --explain-\*' rows.ir --explain-tiling --explain-fusion
expect 2 '--emit=plan: found explain-fusion before it' rows.ir --explain-fusion --emit=plan
expect 2 'sm_12345|target' rows.ir --target=sm_12345x
echo 'graph @bad()(%x: f32[2]) -> (%y) { %y = rely(%x) }' > bad.ir
expect 2 "line 1: found 'rely\(%x\) }', expected an operator" bad.ir
sed 's/kernel kiln/colonel kiln/' kernels.ir > bad_plan.ir
expect 2 "line [0-9]+ column 3: found 'colonel kiln_red_fused_add_ama', expected in, const" bad_plan.ir
sed 's/cpu rows accumulators 1 block 4096 grain 16384/cpu rows accumulators 0 block 4096 grain 16384/' kernels.ir > broken_plan.ir
expect 1 'K5 at kiln_red_fused_add_amax_div_exp_sub_sum_0: found accumulators 0' broken_plan.ir
"$OPT" rows.ir --emit=kernels --target=sm_90 > cuda_kernels.ir
sed 's/cuda rows vector [0-9]*/cuda rows vector 3/' cuda_kernels.ir > broken_plan.ir
expect 1 'K5 at kiln_per_fused_add_amax_div_exp_sub_sum_0: found vector 3' broken_plan.ir
sed 's/ parts 1 / parts 2 /' cuda_kernels.ir > broken_plan.ir
expect 1 'K8 at kiln_per_fused_add_amax_div_exp_sub_sum_0: found 2 parts and no workspace' broken_plan.ir

exit "$failed"
