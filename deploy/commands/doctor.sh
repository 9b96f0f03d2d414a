#!/usr/bin/env bash
# Says what is wrong here, and what to type: ./kiln ctl doctor.
#
# usage: ./kiln doctor [COMPILECTL OPTION...]
# As ./kiln ctl doctor: compilers, GPU libraries, the daemon and its socket, data folder, disk and clock.
exec bash "$(dirname "${BASH_SOURCE[0]}")/ctl.sh" doctor "$@"
