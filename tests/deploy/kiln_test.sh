#!/usr/bin/env bash
# ./kiln finds its commands, lists them, helps with each, and refuses what is none.
set -u
root=$(dirname "$(readlink -f WORKSPACE)")
kiln=$root/kiln

fail() {
  echo "$1"
  exit 1
}

# refused WORDS...: they end with 2, say something to standard error and nothing else.
refused() {
  local out
  out=$("$kiln" "$@" 2>"$TEST_TMPDIR/err")
  [[ $? -eq 2 ]] || fail "\"$*\" is not refused with 2"
  [[ -z $out && -s $TEST_TMPDIR/err ]] || fail "\"$*\" is not refused on standard error: $out"
}

listed=$("$kiln" help) || fail "help exits with $?"
for script in "$root"/deploy/commands/*.sh; do
  name=$(basename "$script" .sh)
  grep -q "^  $name  *[A-Z]" <<<"$listed" || fail "help does not say what $name does: $listed"
  for word in --help -h; do
    text=$("$kiln" "$name" $word) || fail "$name $word exits with $?"
    grep -q "^usage: ./kiln $name" <<<"$text" || fail "$name $word has no usage: $text"
  done
done
for name in bench corpus ctl daemon demo doctor fmt fuzz gpu-bundle soak test test-torch tidy wheel; do
  grep -q "^  $name " <<<"$listed" || fail "help does not list $name: $listed"
done
for word in "" --help -h; do
  [[ $("$kiln" $word) == "$listed" ]] || fail "\"$word\" is not help"
done

refused nosuch
refused ../test
refused test.sh
refused -x
refused test --nosuch
refused soak --nosuch 1
refused soak --minutes
refused soak --minutes never
refused soak nosuch
refused fuzz nosuch
refused fuzz --seconds never
refused fmt --nosuch
refused fmt --check more
refused tidy --nosuch
refused tidy no/such/file.cc
refused demo more
refused demo cluster now
grep -q '"cluster now"' "$TEST_TMPDIR/err" || fail "demo does not say what it found: $(<"$TEST_TMPDIR/err")"
refused stats
grep -q 'kiln ctl --help' "$TEST_TMPDIR/err" || fail "a command of compilectl's is not led there: $(<"$TEST_TMPDIR/err")"
refused corpus
refused gpu-bundle --nosuch
refused gpu-bundle one two
refused test-torch --torch
refused test-torch --torch newest
refused bench nosuch
refused bench ../demo

# Every benchmark is listed, with what it shows.
listed=$("$kiln" bench) || fail "bench exits with $?"
for script in "$root"/bench/*.sh; do
  name=$(basename "$script" .sh)
  grep -q "^  $name  *[A-Z]" <<<"$listed" || fail "bench does not say what $name shows: $listed"
done

# Help with a command that starts a program goes on with the program's own; where it is not built, that is said.
tree=$TEST_TMPDIR/tree
mkdir -p "$tree/deploy"
cp "$kiln" "$tree/kiln"
cp -r "$root/deploy/commands" "$tree/deploy/commands"
grep -q "compilectl is not built yet" <<<"$("$tree/kiln" ctl --help)" || fail "ctl --help says nothing of a missing program"
mkdir -p "$tree/bazel-bin/client/compilectl"
printf '#!/bin/sh\necho "compilectl was given $*"\n' >"$tree/bazel-bin/client/compilectl/compilectl"
chmod +x "$tree/bazel-bin/client/compilectl/compilectl"
text=$("$tree/kiln" ctl --help) || fail "ctl --help exits with $?"
grep -q "^usage: ./kiln ctl" <<<"$text" && grep -q "^compilectl was given --help" <<<"$text" ||
  fail "ctl --help is without the program's own: $text"
touch "$tree/deploy/nvrtc_environment.sh"
[[ $("$tree/kiln" doctor -o json) == "compilectl was given doctor -o json" ]] || fail "doctor is not ctl doctor"

# A build that has to wait for another says so, and one of what was never built says that it takes long.
mkdir -p "$TEST_TMPDIR/bin"
printf '#!/bin/sh\n[ "$1" != --noblock_for_lock ] || [ ! -e %s/held ] || exit 9\necho "bazel $*"\nexit 3\n' \
  "$TEST_TMPDIR" >"$TEST_TMPDIR/bin/bazel"
chmod +x "$TEST_TMPDIR/bin/bazel"
# builds: standard error of a build of //server:kilnd in the copied tree; nothing goes to standard output.
builds() {
  (cd "$tree" && PATH=$TEST_TMPDIR/bin:$PATH && source "$root/deploy/build.sh" && build //server:kilnd 2>&1 >"$TEST_TMPDIR/out")
}
text=$(builds)
[[ $? -eq 3 ]] || fail "a build's status is not bazel's"
[[ ! -s $TEST_TMPDIR/out ]] || fail "a build writes to standard output: $(<"$TEST_TMPDIR/out")"
[[ ${text%%$'\n'*} == "kiln: building //server:kilnd, which takes"* ]] || fail "a first build does not begin with what it does: $text"
! grep -q waiting <<<"$text" || fail "a build that is alone waits: $text"
mkdir -p "$tree/bazel-bin/server"
touch "$tree/bazel-bin/server/kilnd" "$TEST_TMPDIR/held"
text=$(builds)
[[ $? -eq 3 ]] || fail "a build that waited has not bazel's status"
grep -q "^kiln: another build or test is running in this tree; waiting" <<<"$text" || fail "a build waits without a word: $text"
grep -q "^bazel build .*//server:kilnd" <<<"$text" || fail "a build that waited is not done: $text"
! grep -q "kiln: building" <<<"$text" || fail "a later build says that it takes long: $text"

# The service's tests are those of its four packages, beside what is named.
rm "$TEST_TMPDIR/held"
printf '#!/bin/sh\n' >"$tree/deploy/install_deps.sh"
chmod +x "$tree/deploy/install_deps.sh"
echo 'nvrtc_stands() { return 1; }' >"$tree/deploy/nvrtc_environment.sh"
cp "$root/deploy/build.sh" "$root/deploy/count_tests.py" "$tree/deploy/"
text=$(PATH=$TEST_TMPDIR/bin:$PATH "$tree/kiln" test --service //tests/runtime:all 2>&1)
due="//tests/proto/... //tests/cache/... //tests/server/... //tests/client/... //tests/runtime:all"
grep -q "^bazel .* test .* $due\$" <<<"$text" || fail "test --service runs other tests: $text"

# The demos' headings are bold on a terminal alone.
[[ $(source "$root/deploy/say.sh" && say one two) == $'\n== one two' ]] || fail "a heading has escapes where no terminal is"
