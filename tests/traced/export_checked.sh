#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Real recordings (the samplers on the simulated driver, an all-reduce of two ranks) exported to Perfetto
# and Chrome, and every slice compared with the recordings' own records by the strict checkers. Where
# TRACE_PROCESSOR names Perfetto's trace_processor_shell, it judges as well.
set -eu

checkers=$WAYLAY_SOURCE/tests/perfetto
# shellcheck source=tests/traced/exported.inc
. "$(dirname "$0")/exported.inc"

job='set -e
waylay-sampler-perf --backend cuda --variant naive --n 2003 --calls 7 --warmup 0
waylay-sampler-perf --backend cuda --variant fused --n 2003 --calls 7 --warmup 0'
if [ -x "$build/waylay-coll-perf" ]; then
	job="$job
waylay-coll-perf --np 2 --minbytes 64K --maxbytes 256K --stepfactor 4 --iters 5 all_reduce"
fi
waylay run --no-export --dir rec -- sh -c "$job" >out 2>err || fail "the job"

judge() { # TRACE CHECKER
	"$python" "$checkers/$2" "$1" records || fail "$1 is not what was recorded"
	[ -z "${TRACE_PROCESSOR:-}" ] ||
		"$python" "$checkers/check_processor.py" "$TRACE_PROCESSOR" "$1" || fail "$1"
}
"$build/tests/dump_trace" rec >records
[ "$(wc -l <records)" -gt 50 ] || fail "hardly any record"
for options in "" "--compress" "--no-stacks"; do
	# shellcheck disable=SC2086
	waylay export rec $options -o trace.pftrace 2>err || fail "export $options"
	[ "$options" = --no-stacks ] || judge trace.pftrace check_trace.py
	[ "$options" != --no-stacks ] || "$python" "$checkers/check_trace.py" trace.pftrace
done
waylay export rec -f chrome -o trace.json.gz 2>err || fail "export to Chrome"
judge trace.json.gz check_chrome.py

# Sixteen processes: what each rank sends, another receives.
if command -v mpirun.openmpi >/dev/null && command -v mpicc.openmpi >/dev/null &&
	mpicc.openmpi -o mpi "$WAYLAY_SOURCE/tests/traced/mpi_allreduce.c" 2>err &&
	timeout 100 mpirun.openmpi -n 16 --oversubscribe --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp \
		waylay run -q --dir ranks -- ./mpi >out 2>err; then
	"$build/tests/dump_trace" ranks >records
	waylay export ranks -o trace.pftrace 2>err || fail "export of 16 ranks"
	judge trace.pftrace check_trace.py
	[ "$(sed -n 's/.*"kind":"process".*/x/p' records | wc -l)" = 16 ] || fail "not 16 processes"
	waylay export ranks -f chrome -o trace.json 2>err || fail "export of 16 ranks to Chrome"
	judge trace.json check_chrome.py
else
	echo "no run of 16 ranks: $(tail -n 1 err)"
fi
