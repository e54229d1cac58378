#!/bin/sh
# Runs the tests of the bundle; words choose some by parts of their names: sh test.sh [WORD...]
# WUJI_TEST_BACKEND=cuda runs those that can on the first GPU.
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
