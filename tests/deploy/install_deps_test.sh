#!/usr/bin/env bash
# install_deps.sh waits while another process holds apt's lock, not for ever, and ends with apt-get's status. That NVRTC is
# missing ends nothing. The commands of the system are stand-ins, which write down what they are asked.
set -u
tree=$TEST_TMPDIR/tree
mkdir -p "$tree/deploy" "$tree/bin" "$tree/build/nvrtc/nvidia/cu13/lib"
cp -L deploy/install_deps.sh "$tree/deploy/"
# Whatever toolkit this machine has.
sed 's#/usr/local/cuda#/nowhere/cuda#g' deploy/nvrtc_environment.sh >"$tree/deploy/nvrtc_environment.sh"
unset KILN_NVRTC KILN_CUDA_LIBRARY_PATH
touch "$tree/build/nvrtc/nvidia/cu13/lib/libnvrtc.so.13"
log=$tree/asked

fail() {
  echo "$1"
  cat "$log" "$tree/err"
  exit 1
}

stand_in() { # NAME, its body from standard input
  { echo '#!/bin/bash'; cat; } >"$tree/bin/$1"
  chmod +x "$tree/bin/$1"
}
stand_in dpkg-query <<<'exit 1'
stand_in sleep <<<"echo \"sleep \$*\" >>$log"
stand_in id <<<'echo 0'
# The first $BUSY calls find the lock held; then $STATUS.
stand_in apt-get <<E2
echo "apt-get \$1" >>$log
if [[ \$(grep -c apt-get $log) -le \$BUSY ]]; then
  echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 77 (unattended-upgr)" >&2
  exit 100
fi
[[ \$STATUS -eq 0 ]] || echo "E: Unable to locate package" >&2
exit \$STATUS
E2

# installs BUSY STATUS: the script's own status.
installs() {
  : >"$log"
  BUSY=$1 STATUS=$2 PATH=$tree/bin:$PATH bash "$tree/deploy/install_deps.sh" >/dev/null 2>"$tree/err"
}

installs 0 0 || fail "ends with $? where nothing is wrong"
! grep -q sleep "$log" || fail "waits for nothing"

installs 3 0 || fail "ends with $? though the lock was given back"
[[ $(grep -c sleep "$log") -eq 3 ]] || fail "does not wait while the lock is held"
grep -q "another process holds apt's lock; waiting" "$tree/err" || fail "does not say that it waits"
grep -q "process 77" "$tree/err" || fail "keeps from its reader whose lock it is"

installs 1000 0
[[ $? -eq 100 ]] || fail "does not end with apt-get's status when the lock stays held"
[[ $(grep -c sleep "$log") -lt 100 ]] || fail "waits for ever"
grep -q "still held" "$tree/err" || fail "does not say why it gives up"

installs 0 42
[[ $? -eq 42 ]] || fail "does not end with apt-get's status"
! grep -q sleep "$log" || fail "tries again what another try does not mend"

stand_in id <<<'echo 1000'
installs 0 0
[[ $? -eq 1 ]] || fail "installs without root"
grep -q "sudo apt-get update && sudo apt-get install" "$tree/err" || fail "does not say what to type"
! grep -q apt-get "$log" || fail "asks apt-get without root"

# Without NVRTC, and without PyPI: told, with both ways to have it, and no end.
stand_in dpkg-query <<<'echo installed'
stand_in python3 <<<"echo \"python3 \$*\" >>$log; exit 1"
installs 0 0 || fail "ends with $? where NVRTC stands"
! grep -q python3 "$log" || fail "fetches NVRTC though it stands"
rm -r "$tree/build/nvrtc"
installs 0 0 || fail "ends with $? where NVRTC cannot be fetched"
grep -q python3 "$log" || fail "does not try to fetch NVRTC"
[[ -z $(ls "$tree/build") ]] || fail "leaves behind: $(ls "$tree/build")"
for words in "run deploy/install_deps.sh again" "export KILN_CUDA_LIBRARY_PATH=FOLDER"; do
  grep -q "$words" "$tree/err" || fail "does not say \"$words\""
done

# One that is elsewhere and named is not fetched again.
mkdir -p "$tree/cuda"
touch "$tree/cuda/libnvrtc.so.13.0.88"
KILN_CUDA_LIBRARY_PATH=$tree/none:$tree/cuda installs 0 0 || fail "ends with $? where NVRTC is named"
! grep -q python3 "$log" || fail "fetches NVRTC though its folder is named"
