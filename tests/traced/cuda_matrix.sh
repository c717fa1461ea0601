#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Each call behind a running kernel, on the simulated driver or (WAYLAY_TEST_GPU=1) on the machine's own:
# what the recorded rule says the call waits for is what the host was held by.
set -eu

if [ -z "${WAYLAY_TEST_GPU:-}" ]; then
	export LD_LIBRARY_PATH="$WAYLAY_BUILD/tests/fakecuda"
fi
# Uneven enough that nothing else takes as long.
kernel_ms=17
status=0
WAYLAY_DIR=$PWD/out LD_PRELOAD=$WAYLAY_BUILD/libwaylay.so "$WAYLAY_BUILD/tests/cuda_matrix" "$kernel_ms" >rows || status=$?
[ "$status" -ne 77 ] || exit 77
[ "$status" -eq 0 ]
"$WAYLAY_BUILD/tests/cuda_matrix_check" rows out/*.wspool
