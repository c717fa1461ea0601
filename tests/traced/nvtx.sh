#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# NVTX ranges are recorded once CUDA has been met, not before and not alone; another tool that was asked
# for first sees every call and keeps its own handles.
set -eu
build=$WAYLAY_BUILD/tests
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
fake=$build/fakecuda
[ -e "$fake/libcuda.so.1" ] || { echo "no simulated CUDA driver in this build" && exit 77; }
export LD_LIBRARY_PATH="$fake${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fail() {
	echo "FAIL: $*"
	exit 1
}
traced() { # DIRECTORY COMMAND...
	directory=$1
	shift
	WAYLAY_DIR=$PWD/$directory LD_PRELOAD=$preload "$@"
}
events() { # DIRECTORY: the NVTX events of its one recording, without thread numbers and flags
	"$build/spool_dump" "$1"/*.wspool >"$1/dump"
	sed -n 's/^event [0-9]* \(nvtx_.*\) flags=.*/\1/p' "$1/dump" | sed 's/id=[0-9]*/id=N/'
}
none="payload=0 domain= text=%s color=0 category= payload_type=none"
for program in nvtx_ranges nvtx_ranges_nvidia; do
	[ -x "$build/$program" ] || continue
	out=$program.out
	# shellcheck disable=SC2059 # the format is ours
	{
		echo "nvtx_pop domain="
		printf "nvtx_push $none\n" after
		printf "nvtx_mark $none\n" mark
		for _ in 1 2 3; do echo "nvtx_pop domain="; done
		printf "nvtx_start id=N $none\n" crossing
		printf "nvtx_push $none\n" "on a thread"
		echo "nvtx_pop domain="
		echo "nvtx_end id=N"
		if [ $program = nvtx_ranges ]; then
			echo "nvtx_push payload=4711 domain=library text=registered color=ff00ff00 category=8 payload_type=u64"
			printf "nvtx_mark $none\n" registered | sed 's/domain=/domain=library/'
			echo "nvtx_pop domain=library"
		else
			echo "nvtx_push payload=4711 domain=library text=registered color=ff00ff00 category=phase payload_type=u64"
			echo "nvtx_mark payload=4711 domain=library text=registered color=ff00ff00 category=8 payload_type=u64"
			echo "nvtx_pop domain=library"
			printf "nvtx_push $none\n" "широкий 😀"
			echo "nvtx_pop domain="
			echo "nvtx_push payload=4602678819172646912 domain=weite Domäne text=wide message color=0 category= payload_type=f64"
			echo "nvtx_pop domain=weite Domäne"
		fi
		printf "nvtx_push $none\n" "never closed"
	} >expected
	traced "$out" "$build/$program" >said
	[ "$(cat said)" = "done" ] || fail "$program said: $(cat said)"
	events "$out" >got
	diff expected got || fail "$program: < expected, > recorded"
	grep -q '^thread [0-9]* named early$' "$out/dump" || fail "$program: the early thread name is lost"
	grep -q '^thread [0-9]* worker of nvtx_ranges$' "$out/dump" || fail "$program: the worker's name is lost"

	# Ranges alone are no reason to write anything.
	traced "$program.alone" "$build/$program" --no-cuda >said
	[ "$(cat said)" = "done" ] || fail "$program alone said: $(cat said)"
	[ ! -e "$program.alone" ] || fail "$program alone left something behind: $(ls "$program.alone")"

	# With another tool: the same calls reach it with and without us, and we lose nothing.
	OTHER_TOOL_LOG=log.alone NVTX_INJECTION64_PATH=$build/nvtx_tool.so "$build/$program" >said
	OTHER_TOOL_LOG=log.both NVTX_INJECTION64_PATH=$build/nvtx_tool.so traced "$program.both" "$build/$program" >said
	grep -q '^domain push mine mine' log.alone || fail "the test's other tool saw no domain"
	diff log.alone log.both || fail "$program: another tool sees other calls (< alone, > with the preload)"
	events "$program.both" | grep -v -e wide -e weite -e широкий >got
	grep -v -e wide -e weite -e широкий expected >wanted
	# That tool makes no wide domains, so theirs is the default one.
	[ "$program" = nvtx_ranges ] || { sed '/^nvtx_pop domain=$/d' got >g && mv g got && sed '/^nvtx_pop domain=$/d' wanted >w && mv w wanted; }
	diff wanted got || fail "$program with another tool: < expected, > recorded"
done

# As an NVTX tool alone, without the preload: attached, silent, harmless.
NVTX_INJECTION64_PATH=$WAYLAY_BUILD/libwaylay.so WAYLAY_DIR=$PWD/tool "$build/nvtx_ranges" >said
if [ "$(cat said)" != "done" ] || [ -e tool ]; then fail "as a tool alone: $(cat said)"; fi
# A tool that is not there is no reason to lose ours.
NVTX_INJECTION64_PATH=/nowhere/tool.so traced absent "$build/nvtx_ranges" >said
events absent | grep -q 'text=after' || fail "a tool that cannot be loaded took our ranges away"
echo "ranges, marks, domains, names; alone, before CUDA, with another tool"
