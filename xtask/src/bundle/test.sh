#!/bin/sh
# Runs the tests of the bundle. Words select tests by name: sh test.sh [WORD...]
# WUJI_TEST_BACKEND=cuda runs kernels on the first GPU, where supported.
cd "$(dirname "$0")/tests" || exit 2
failed=""
run() {
    program=$1
    shift
    if [ -x "../$program" ]; then
        echo "== $program"
        "../$program" "$@" || failed="$failed $program"
    fi
}
RUNS
if [ -n "$failed" ]; then
    echo "failed:$failed"
    exit 1
fi
echo "all tests passed"
