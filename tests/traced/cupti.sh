#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Device activity by CUPTI (a simulated one, on the simulated driver): every kernel, copy, memset and wait of
# the job is there, with and without another client of the same interface in the process, and that client
# sees exactly what it sees without Waylay.
set -eu
. "$WAYLAY_SOURCE/tests/traced/preload.inc"
program=$WAYLAY_BUILD/tests/cupti_client
simulated=$WAYLAY_BUILD/tests/fakecuda:$WAYLAY_BUILD/tests/fakecupti
fail() {
	echo "FAIL: $*"
	exit 1
}
traced() { # SETTINGS... -- ARGUMENTS...: what the program says goes to `traced`, the recording to `dump`
	settings=
	preloaded=
	while [ "$1" != -- ]; do
		case $1 in
		preloaded) preloaded=$preload ;; # may be two, with a blank in between
		*) settings="$settings $1" ;;
		esac
		shift
	done
	shift
	rm -rf out
	# shellcheck disable=SC2086 # a list
	env $settings ${preloaded:+LD_PRELOAD="$preloaded"} WAYLAY_DIR="$PWD/out" LD_LIBRARY_PATH="$simulated" "$program" "$@" >traced 2>err || {
		cat err
		fail "$program $* with $settings"
	}
	"$WAYLAY_BUILD/tests/spool_dump" out/*.wspool >dump
}
events() { grep -c " $1 " dump || true; }
# What the program gave to the device; a graph is four kernels and a memset.
holds_all() {
	# shellcheck disable=SC2046 # numbers
	set -- $(cat traced err | sed -n 's/^all: \([0-9]*\) kernels \([0-9]*\) copies \([0-9]*\) memsets \([0-9]*\) graphs/\1 \2 \3 \4/p')
	# What another client takes out by force while the device is at it is lost to both, and counted.
	forced=$(sed -n 's/^attribute cupti.incomplete //p' dump)
	[ "${expect_forced:-}" ] || [ "$forced" = 0 ] || fail "$forced records lost"
	[ $(($(events gpu_kernel) + forced)) = $(($1 + 4 * $4)) ] || fail "$(events gpu_kernel) kernels of $1 + 4 x $4"
	[ "$(events gpu_copy)" = "$2" ] || fail "$(events gpu_copy) copies of $2"
	[ "$(events gpu_memset)" = $(($3 + $4)) ] || fail "$(events gpu_memset) memsets of $3 + $4"
	grep -q '^attribute cupti on' dump || fail "$(grep '^attribute cupti' dump)"
	! grep '^drops' dump || fail "drops"
}

for with in none link dlsym "link early" "link clock=own" "dlsym thread"; do
	for version in 130001 18; do
		# shellcheck disable=SC2086 # words
		FAKECUPTI_VERSION=$version LD_LIBRARY_PATH=$simulated "$program" $with >plain 2>/dev/null
		# shellcheck disable=SC2086
		traced FAKECUPTI_VERSION=$version WAYLAY_GPU=cupti preloaded -- $with
		diff plain traced || fail "the client's rows ($with)"
		expect_forced=${with#"${with%thread}"}
		holds_all
		grep -q "^attribute cupti.version $version" dump || fail "another version"
		[ "$(events gpu_sync)" = 0 ] || fail "waits that nobody asked for"
	done
done
# Streams' numbers: of the two streams of the job and of the thread's.
[ "$(events gpu_stream)" = 3 ] || fail "$(events gpu_stream) streams"

# The activity of each call stands where the call stands in its stream.
traced WAYLAY_GPU=cupti preloaded -- link
if command -v python3 >/dev/null; then
	"$WAYLAY_BUILD/waylay" export -f jsonl -o trace.jsonl out 2>/dev/null
	python3 "$WAYLAY_SOURCE/tests/gpu/lib/activity.py" trace.jsonl --least-matched 1
fi
if /usr/bin/python3 -c 'import google.protobuf' 2>/dev/null && command -v protoc >/dev/null; then
	"$WAYLAY_BUILD/waylay" export -o trace.pftrace out 2>/dev/null
	/usr/bin/python3 "$WAYLAY_SOURCE/tests/perfetto/check_trace.py" trace.pftrace >said || fail "$(cat said)"
	all=$(($(events gpu_kernel) + $(events gpu_copy) + $(events gpu_memset)))
	grep -q " $all on devices ($all arrows)" said || fail "an arrow for each of $all: $(cat said)"
fi

# No thread of ours, and all kinds: a graph is then one record.
traced WAYLAY_GPU=cupti WAYLAY_THREAD=0 preloaded -- none
holds_all
traced WAYLAY_GPU=cupti WAYLAY_GPU_KINDS=kernel,copy,memset,sync,graph preloaded -- none
[ "$(events gpu_graph)" = 8 ] || fail "$(events gpu_graph) graphs"
[ "$(events gpu_kernel)" = 81 ] || fail "$(events gpu_kernel) kernels beside graphs"
[ "$(events gpu_sync)" = 16 ] || fail "$(events gpu_sync) waits"
# A client wants to see nodes: then they are recorded in its window.
LD_LIBRARY_PATH=$simulated "$program" link >plain
traced WAYLAY_GPU=cupti WAYLAY_GPU_KINDS=kernel,copy,memset,sync,graph preloaded -- link
diff plain traced || fail "the client's rows (graph)"

# Not asked for: nothing of it is there, and the client has its own.
traced WAYLAY_GPU=none preloaded -- link
diff plain traced || fail "the client's rows (none)"
grep -q '^attribute cupti' dump && fail "CUPTI without being asked for"

# By the driver's own door, in a job that knows nothing of us.
traced "CUDA_INJECTION64_PATH=$WAYLAY_BUILD/libwaylay.so" -- none
holds_all
traced "CUDA_INJECTION64_PATH=$WAYLAY_BUILD/libwaylay.so" preloaded -- none
holds_all

# A library that is not there, or too old: one line, and the job runs on.
LD_LIBRARY_PATH=$simulated "$program" none >plain
traced WAYLAY_GPU=cupti WAYLAY_CUPTI=/nowhere/libcupti.so preloaded -- none
diff plain traced || fail "the job without CUPTI"
[ "$(grep -c 'device activity is not recorded' err)" = 1 ] || fail "not told: $(cat err)"
traced WAYLAY_GPU=cupti FAKECUPTI_VERSION=17 preloaded -- none
grep -q 'older than' err || fail "not told: $(cat err)"
echo "with and without another client: every row on both sides"
