#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Each call behind a running kernel, on the simulated driver or (WAYLAY_TEST_GPU=1, and with a compiled
# kernel WAYLAY_TEST_CUBIN=FILE) on the machine's own: what the recorded rule says the call waits for is
# what the host was held by. The program goes by the clock, and a busy machine can take it off its
# processor for longer than the kernel runs; so one of three runs has to agree in every row.
set -eu
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"

if [ -z "${WAYLAY_TEST_GPU:-}" ]; then
	export LD_LIBRARY_PATH="$WAYLAY_BUILD/tests/fakecuda"
fi
for kernel_ms in 17 29 43; do
	rm -rf out
	status=0
	WAYLAY_DIR=$PWD/out LD_PRELOAD="$preload" \
		"$WAYLAY_BUILD/tests/cuda_matrix" "$kernel_ms" ${WAYLAY_TEST_CUBIN:+"$WAYLAY_TEST_CUBIN"} >rows || status=$?
	[ "$status" -ne 77 ] || exit 77
	[ "$status" -eq 0 ]
	if "$WAYLAY_BUILD/tests/cuda_matrix_check" rows out/*.wspool >judged; then
		tail -n 1 judged
		exit 0
	fi
	grep -e DISAGREES -e DURATION -e wrong judged
done
exit 1
