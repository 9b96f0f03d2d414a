#!/usr/bin/env bash
# Planted races are found, wherever they stand. Built with TSan only.
set -u
failed=0
for where in thread function_ref callback; do
  output=$(tests/sanitizers/planted_race "$where" 2>&1)
  status=$?
  if [[ $status -eq 0 ]] || ! grep -q 'ThreadSanitizer: data race' <<<"$output" ||
    ! grep -q 'kiln::(anonymous namespace)::Add' <<<"$output"; then
    echo "the race planted in '$where' was not found (exit $status):"
    echo "$output"
    failed=1
  fi
done
exit "$failed"
