#!/usr/bin/env bash
# What client/python writes by hand is read back by protoc as the message that was meant.
set -eu
root=$(dirname "$(readlink -f WORKSPACE)")
python3 "$root/tests/client/python/wire_test.py" "$root"
