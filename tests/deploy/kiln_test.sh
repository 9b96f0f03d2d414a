#!/usr/bin/env bash
# ./kiln finds its commands, lists them, and refuses what is none.
set -u
kiln=$(dirname "$(readlink -f WORKSPACE)")/kiln

fail() {
  echo "$1"
  exit 1
}

listed=$("$kiln" help) || fail "help exits with $?"
for name in test fmt tidy; do
  grep -q "^  $name " <<<"$listed" || fail "help does not list $name: $listed"
done
[[ $("$kiln") == "$listed" ]] || fail "no command is not help"

for name in nosuch ../test "test.sh" "-x"; do
  "$kiln" "$name" 2>/dev/null
  [[ $? -eq 2 ]] || fail "\"$name\" is not refused with 2"
done
"$kiln" test --nosuch 2>/dev/null
[[ $? -eq 2 ]] || fail "test --nosuch is not refused with 2"
