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
for name in bench corpus ctl daemon demo fmt fuzz gpu-bundle soak test test-torch tidy wheel; do
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
