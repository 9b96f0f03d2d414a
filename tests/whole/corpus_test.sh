#!/usr/bin/env bash
# Corpus files through the client, a daemon and its workers: each case gives PyTorch's results within its tolerance, but for
# the cases that a list names, which say UNIMPLEMENTED. kiln-corpus fails a dynamic pair that took more than one compile.
#
# usage: [OK_IS_DUE=N] corpus_test.sh UNIMPLEMENTED.txt PATH... [--device ...]
# With OK_IS_DUE just so many cases must have run and compared as PyTorch: none that lost its data passes as compiled.
# With EMULATED kernels run on tests/support/cuda_emulator: a case that stops at a library that it does not have (cuBLAS, cuDNN),
# since no device is here or the library is not, is left out.
# A case that begins to say UNIMPLEMENTED fails the test, and so does one that no longer says it, until the list is mended.
set -euo pipefail
list=$1
shift

# A machine where install_deps.sh has put NVRTC says so (deploy/commands/test.sh); one without it has nothing to test here.
if [[ " $* " == *" cuda-compile "* && -z ${KILN_NVRTC_IS_DUE:-} ]] &&
  ! compgen -G '/usr/local/cuda*/lib64/libnvrtc.so*' >/dev/null; then
  cat >"$XML_OUTPUT_FILE" <<'XML'
<testsuites><testsuite name="corpus_test"><testcase name="CubinsOfTheCorpus" status="run">
<skipped message="no libnvrtc: deploy/install_deps.sh fetches it"/></testcase></testsuite></testsuites>
XML
  exit 0
fi

out=$TEST_TMPDIR/out.txt
if [[ -n ${EMULATED:-} ]]; then export KILN_CUDA_LIBRARY_PATH=$PWD/tests/support/cuda_emulator; fi
client/corpus_runner/kiln-corpus "$@" --verify --kilnd "$PWD/server/kilnd" --worker "$PWD/compiler/kiln-worker" >"$out" || true
if [[ -n ${EMULATED:-} ]]; then
  sed -i -E '/^FAILED .*: (cublasLtCreate: |cudnnCreate: |libcublasLt\.so|libcudnn\.so)/d; s/ [0-9]+ failed, / 0 failed, /' "$out"
fi
if grep -vE '^(ok|compiled|UNIMPLEMENTED) |^[0-9]+ (passed, |of the passed)' "$out"; then exit 1; fi
tail -n 1 "$out" | grep -qE '^[1-9][0-9]* passed, 0 failed, '
if [[ -n ${OK_IS_DUE:-} ]]; then
  ok=$(grep -c '^ok ' "$out" || true)
  if [[ $ok != "$OK_IS_DUE" ]] || grep '^compiled ' "$out"; then
    echo "cases that were compared and right: found $ok, due $OK_IS_DUE, and none that is only compiled"
    exit 1
  fi
fi

awk '$1 == "UNIMPLEMENTED" {print $2}' "$out" | LC_ALL=C sort >"$TEST_TMPDIR/found.txt"
sed 's/ *#.*//; /^$/d' "$list" | LC_ALL=C sort >"$TEST_TMPDIR/pinned.txt"
if ! diff -U 0 --label "$list" --label "what says UNIMPLEMENTED now" "$TEST_TMPDIR/pinned.txt" "$TEST_TMPDIR/found.txt"; then
  grep '^UNIMPLEMENTED' "$out"
  exit 1
fi
