#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Threads that come and go, children forked before and after the first CUDA call, programs started by
# them; built plainly, with each sanitizer, with other allocators; the preload in front of theirs and
# behind. No committed record may be missing, nobody may crash or complain.
set -eu
build=$WAYLAY_BUILD/tests
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
source=${WAYLAY_SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
fake=$build/fakecuda
lib=$WAYLAY_BUILD/libwaylay.so
unset WAYLAY_BUILD
[ -e "$fake/libcuda.so.1" ] || { echo "no simulated CUDA driver in this build" && exit 77; }
export LD_LIBRARY_PATH="$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
threads=13 rounds=101 children=5
fail() {
	echo "FAIL: $*"
	exit 1
}
waits() { # FILE: its cuStreamSynchronize records
	"$build/spool_dump" "$1" | grep -c ' cuda_wait .*api=cuStreamSynchronize '
}
ran=
run() { # NAME LD_PRELOAD PROGRAM
	rm -rf out
	env LD_PRELOAD="$2" WAYLAY_DIR="$PWD/out" "$3" $threads $rounds $children >said 2>errors ||
		fail "$1: status $?: $(tail -n 20 errors)"
	[ "$(cat said)" = $((threads * rounds)) ] || fail "$1: the job said $(cat said)"
	[ ! -s errors ] || fail "$1: $(head -n 20 errors)"
	# One recording of the program and one of each early child; none of those that did nothing.
	[ "$(find out -name '*.wspool' | wc -l)" = $((children + 1)) ] || fail "$1: recordings: $(ls out)"
	seen=0 all=0
	for recording in out/*.wspool; do
		count=$(waits "$recording")
		all=$((all + count))
		[ "$count" != $((threads * rounds)) ] || seen=1
	done
	[ $seen$all = 1$((threads * rounds + children * 2 * rounds)) ] ||
		fail "$1: $all waits recorded, not $((threads * rounds)) + $((children * 2 * rounds))"
	ran="$ran $1"
}

if [ -n "$runtime" ]; then # nothing below goes with a second sanitizer
	run instrumented "$preload" "$build/traced_threads"
	WAYLAY_THREAD=0 run instrumented-no-thread "$preload" "$build/traced_threads"
	echo "$ran"
	exit 0
fi
run plain "$lib" "$build/traced_threads"
WAYLAY_THREAD=0 run no-thread "$lib" "$build/traced_threads"
for allocator in libjemalloc.so.2 libtcmalloc_minimal.so.4; do
	file=$(ldconfig -p | sed -n "s/.*${allocator} .*=> //p" | head -n 1)
	[ -n "$file" ] || continue
	run "$allocator-behind" "$lib $file" "$build/traced_threads"
	run "$allocator-before" "$file $lib" "$build/traced_threads"
done

# Sanitizers. The simulated driver is not built with them, so leaks of its own are not looked for.
build_with() { # NAME FLAGS
	# shellcheck disable=SC2086 # several flags
	${CC:-cc} -g -O1 $2 -I"$source" -o "$1" "$source/tests/traced/sanitize/threads.c" -pthread -ldl 2>log
}
export ASAN_OPTIONS=detect_leaks=0 TSAN_OPTIONS=die_after_fork=0:atexit_sleep_ms=0
if build_with asan "-fsanitize=address"; then
	asan=$(ldd ./asan | sed -n 's/.*libasan.*=> \([^ ]*\).*/\1/p')
	[ -z "$asan" ] || run asan-shared-before "$asan $lib" ./asan
	ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 run asan-behind "$lib" ./asan
fi
if build_with asan_static "-fsanitize=address -static-libasan"; then
	run asan-static "$lib" ./asan_static
fi
if build_with tsan "-fsanitize=thread"; then
	tsan=$(ldd ./tsan | sed -n 's/.*libtsan.*=> \([^ ]*\).*/\1/p')
	[ -z "$tsan" ] || run tsan-before "$tsan $lib" ./tsan
	run tsan-behind "$lib" ./tsan
fi
if build_with ubsan "-fsanitize=undefined -fno-sanitize-recover=all"; then
	run ubsan "$lib" ./ubsan
fi
echo "$ran"
