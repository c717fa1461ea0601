#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What takes longer than `make test` may: sanitizer builds, the other compiler, static analysis, and the
# long forms of tests that have one.
set -u

status=0
step() {
	echo "== $*"
	"$@" || status=1
}
for variant in asan tsan ubsan; do
	step make --no-print-directory VARIANT=$variant testware
	WAYLAY_TEST_STORMS=1000 WAYLAY_TEST_LIMIT=1800 step tests/run.sh build/$variant
done
if command -v clang >/dev/null; then
	step make --no-print-directory CC=clang O=build/clang testware
	step tests/run.sh build/clang
fi
step make --no-print-directory testware
WAYLAY_TEST_LONG=1 WAYLAY_TEST_KILLS=10000 WAYLAY_TEST_TREES=1000 WAYLAY_TEST_LIMIT=1800 step tests/run.sh build/release
WAYLAY_TEST_SOAK_S=3600 step timeout 4000 build/release/tests/test_mrcache_soak
step make --no-print-directory lint
exit $status
