#!/usr/bin/env bash
# Builds the daemon and its worker, and starts kilnd where you stand.
#
# usage: ./kiln daemon [KILND OPTION...]      (kilnd's own help stands below)
# The same as bazel-bin/server/kilnd, with NVRTC from build/nvrtc where install_deps.sh put it there. Ctrl-C drains and
# ends it. The build waits for another build or test in this tree; bazel-bin/server/kilnd starts without one.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
"$root/deploy/install_deps.sh"
source "$root/deploy/build.sh"
(cd "$root" && build //server:kilnd //compiler:kiln-worker)
source "$root/deploy/nvrtc_environment.sh"
exec "$root/bazel-bin/server/kilnd" "$@"
