#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Traces the bundled workloads with no GPU:  scripts/demo.sh BUILD_DIR
# One run: a sampler that waits for its counts, one that does not, and an all-reduce of two ranks. The
# CUDA driver is the simulated one in tests/fakecuda; libfabric is this machine's.
set -eu

build=$(cd "${1:?usage: scripts/demo.sh BUILD_DIR}" && pwd)
out=${DEMO_DIR:-waylay-out}
PATH=$build:$PATH
LD_LIBRARY_PATH=$build/tests/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH LD_LIBRARY_PATH

job='
set -e
waylay-sampler-perf --backend cuda --variant naive --n 20000 --calls 11 --warmup 0
waylay-sampler-perf --backend cuda --variant fused --n 20000 --calls 11 --warmup 0
waylay-coll-perf --np 2 --minbytes 64K --maxbytes 4M --stepfactor 8 --iters 11 all_reduce
'
mkdir -p "$out"
echo "demo: a sampler that waits, one that does not, an all-reduce of two ranks" >&2
waylay run --dir "$out" --output "$out/demo.pftrace" -- sh -c "$job" >"$out/demo.log" || {
	status=$?
	cat "$out/demo.log" >&2
	echo "demo: the job failed with status $status" >&2
	exit "$status"
}
echo "demo: the trace, for ui.perfetto.dev:"
echo "$(cd "$out" && pwd)/demo.pftrace"
