# Sourced by benchmarks that run corpus cases: builds, and makes run_corpus, which leaves what the cases took in $report.
# A private daemon each time: every cache is empty.
report=$(mktemp)
trap 'rm -f "$report"' EXIT
bazel build //client/corpus_runner:kiln-corpus //server:kilnd //compiler:kiln-worker
run_corpus() { bazel-bin/client/corpus_runner/kiln-corpus "$@" --report "$report"; }
