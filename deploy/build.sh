# Sourced by commands that build.

# run_bazel WORDS...: bazel WORDS. One bazel works in a tree at a time; that it waits for another is said first.
run_bazel() {
  local held=9 status=0
  bazel --noblock_for_lock "$@" || status=$?
  [[ $status -eq $held ]] || return "$status"
  echo "kiln: another build or test is running in this tree; waiting until it has ended" >&2
  bazel "$@"
}

# build TARGET...: builds them and tells how it goes, on standard error. Where the first was never built, says at once that
# this takes long. The caller stands in the tree.
build() {
  local program=bazel-bin/${1#//}
  [[ -e ${program/://} ]] ||
    echo "kiln: building $*, which takes some minutes the first time (up to 20 on two cores)" >&2
  run_bazel build --show_progress --show_progress_rate_limit=5 "$@" >&2
}
