#!/usr/bin/env bash
exec python3 -B -m tests.structure.structure_test
