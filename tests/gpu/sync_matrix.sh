#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Each call behind a running kernel on a real device (tests/traced/cuda_matrix.c): what its rule says it waits for
# is what the host was held by, and held times are within 5 % of the program's clock.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
[ -x "$WAYLAY_BUILD/tests/cuda_matrix" ] || {
	echo "no cuda_matrix in this build (make testware)"
	exit 77
}
ptxas=$(command -v ptxas || echo /usr/local/cuda/bin/ptxas)
cubin=
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
if [ -x "$ptxas" ] && [ "$capability" ]; then # with code that is compiled already too
	"$WAYLAY_BUILD/tests/cuda_matrix" --ptx >spin.ptx
	"$ptxas" -arch="sm_$capability" -o spin.cubin spin.ptx
	cubin=spin.cubin
fi
for kernel_ms in 17 29 43; do
	rm -rf out
	WAYLAY_DIR=$PWD/out LD_PRELOAD=$WAYLAY_BUILD/libwaylay.so \
		"$WAYLAY_BUILD/tests/cuda_matrix" "$kernel_ms" ${cubin:+"$cubin"} >rows
	status=0
	"$WAYLAY_BUILD/tests/cuda_matrix_check" rows out/*.wspool >judged || status=$?
	grep -e DISAGREES -e DURATION -e wrong judged || true
	[ $status -ne 0 ] || break # the clock is the machine's: one of three has to agree in every row
done
cat judged
exit "$status"
