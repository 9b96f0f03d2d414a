#!/usr/bin/env bash
exec python3 -B -m tests.deploy.count_tests_test
