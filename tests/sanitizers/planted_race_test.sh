#!/usr/bin/env bash
# A planted race fails under TSan. Other builds have no TSan to ask.
set -u
output=$(tests/sanitizers/planted_race 2>&1)
status=$?
if grep -q 'built without TSan' <<<"$output"; then
  echo "nothing to find without --config=tsan"
  exit 0
fi
if [[ $status -eq 0 ]] || ! grep -q 'ThreadSanitizer: data race' <<<"$output"; then
  echo "the planted race was not found:"
  echo "$output"
  exit 1
fi
