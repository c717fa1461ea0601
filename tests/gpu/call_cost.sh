#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What a hooked call costs on a real driver, beside what CUPTI's activity adds to it.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
bench=$WAYLAY_BUILD/bench/bench_cuda
[ -x "$bench" ] || {
	echo "needs bench_cuda (make bench)"
	exit 77
}
${CC:-cc} -shared -fPIC -O1 -o cupti_bare.so "$WAYLAY_SOURCE/tests/gpu/cupti_bare.c" -ldl
CUPTI_BARE_CALLS=1 WAYLAY_TEST_DRIVER=libcuda.so.1 WAYLAY_TEST_CUPTI=$PWD/cupti_bare.so "$bench" "$WAYLAY_BUILD"
