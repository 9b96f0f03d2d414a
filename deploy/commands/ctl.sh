#!/usr/bin/env bash
# Looks at a daemon and tells it what to do: compilectl of this tree.
#
# usage: ./kiln ctl [COMPILECTL ARGUMENT...]      (compilectl's own help stands below; docs/compilectl.md says more)
# That program, told of the NVRTC in build/nvrtc. When it is not there it is built first.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
program=$root/bazel-bin/client/compilectl/compilectl
if [[ ! -x $program ]]; then
  "$root/deploy/install_deps.sh" >&2
  source "$root/deploy/build.sh"
  (cd "$root" && build //client/compilectl:compilectl)
fi
source "$root/deploy/nvrtc_environment.sh"
exec "$program" "$@"
