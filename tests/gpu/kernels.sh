#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The reference kernels on a real device against their oracles: random cases, and the known problems of
# the embedding.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"

for test in test_tbe test_sampler_cuda; do
	[ -x "$WAYLAY_BUILD/tests/$test" ] || {
		echo "no $test in this build (it needs libcmocka-dev)"
		exit 77
	}
	WAYLAY_TEST_GPU=1 WAYLAY_TEST_CASES="${WAYLAY_TEST_CASES:-400}" "$WAYLAY_BUILD/tests/$test"
done
for config in a a-zipf s r; do
	"$WAYLAY_BUILD/waylay-tbe-perf" --backend cuda --config $config --check --calls 10
done
