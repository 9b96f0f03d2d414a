#!/usr/bin/env bash
# Runs a benchmark and prints ratios; without a name it lists them.
#
# usage: ./kiln bench [NAME [ARGUMENT...]]
# A benchmark is bench/NAME.sh; its second line says what it shows.
set -euo pipefail
cd "$(dirname "$0")/../.."

name=${1:-}
if [[ -z $name ]]; then
  for script in bench/*.sh; do
    printf '  %-16s %s\n' "$(basename "$script" .sh)" "$(sed -n '2s/^# *//p' "$script")"
  done
  exit 0
fi
shift
if [[ ! $name =~ ^[a-z][a-z_-]*$ || ! -f bench/$name.sh ]]; then
  echo "kiln bench: there is no benchmark \"$name\"; ./kiln bench lists them" >&2
  exit 2
fi
source deploy/nvrtc_environment.sh
exec bash "bench/$name.sh" "$@"
