#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The SQL package in viewers/perfetto gives the report's numbers from exported traces alone, in
# trace_processor_shell (in PATH, or named by WAYLAY_TEST_TRACE_PROCESSOR).
set -eu
processor=${WAYLAY_TEST_TRACE_PROCESSOR:-${TRACE_PROCESSOR:-$(command -v trace_processor_shell || command -v trace_processor || true)}}
if [ ! -x "$processor" ]; then
	echo "no trace_processor_shell here (WAYLAY_TEST_TRACE_PROCESSOR names one)"
	exit 77
fi
build=$WAYLAY_BUILD/tests
[ -e "$build/fakecuda/libcuda.so.1" ] || { echo "no simulated CUDA driver in this build" && exit 77; }
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
[ -z "$runtime" ] || { echo "built with a sanitizer, whose programs are slow" && exit 77; }
PATH=$WAYLAY_BUILD:$PATH
LD_LIBRARY_PATH="$build/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PATH LD_LIBRARY_PATH

cat >demo.sh <<'EOF2'
waylay-sampler-perf --backend cuda --variant naive --n 2000 --calls 11 --warmup 0
[ ! -x "$1/waylay-coll-perf" ] || waylay-coll-perf --np 2 --mr-cache off --minbytes 64K --maxbytes 256K --stepfactor 4 --iters 5 all_reduce
EOF2
waylay run -q --no-export --dir demo -- sh demo.sh "$WAYLAY_BUILD" >demo.log 2>&1 || { cat demo.log && exit 1; }
WAYLAY_DIR=$PWD/rules LD_PRELOAD=$preload "$build/cuda_calls" >rules.log
if [ -x "$build/ground_truth" ]; then
	for provider in shm 'tcp;ofi_rxm'; do
		WAYLAY_DIR=$PWD/truth LD_PRELOAD=$preload "$build/ground_truth" "$provider" 7 >truth.log && break
		rm -rf truth
	done
fi
for recording in demo rules truth; do
	[ -d "$recording" ] || continue
	waylay export -o "$recording.pftrace" "$recording" 2>export.log || { cat export.log && exit 1; }
	waylay report --json "$recording" >"$recording.json"
	python3 "$WAYLAY_SOURCE/tests/perfetto/check_sql.py" "$processor" "$WAYLAY_SOURCE/viewers/perfetto/waylay" \
		"$recording.pftrace" "$recording.json"
done
