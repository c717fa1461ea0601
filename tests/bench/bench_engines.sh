#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What recording an event costs by each engine, in one run, one after the other: a bare call, the spool with
# either clock, LTTng-UST without a daemon, without a session, and recording, and uftrace. The least and the
# median of 101 bursts of 10,007 events; the least are what another load of the machine changes least.
set -eu
build=$WAYLAY_BUILD
lib=$build/libwaylay-lttng.so
engine=$build/bench/record_engine
place=/dev/shm
[ -w $place ] || place=$PWD

bare=
row() { # NAME COMMAND...
	name=$1
	shift
	"$@" >row.txt 2>row.err || { echo "  $name: $(tail -n 1 row.err)" && return 0; }
	[ -n "$bare" ] || bare=$(awk '{ print $1 }' row.txt)
	awk -v name="$name" -v bare="$bare" '{ printf "  %-44s %8.1f %8.1f %10.1f %10.1f\n", name, $1, $2, $1 - bare, $3 - bare }' row.txt
	awk -v name="$name" -v bare="$bare" '{ print name "\t" $1 - bare }' row.txt >>least.txt
}
printf '  %-44s %8s %8s %10s %10s\n' "ns an event" "least" "median" "over bare" "begin+end"
row "bare call" "$engine" bare
row "spool, the processor's counter" "$engine" tsc "$place"
row "spool, clock_gettime" "$engine" clock "$place"
if [ -e "$lib" ] && command -v lttng >/dev/null && command -v lttng-sessiond >/dev/null; then
	if timeout 10 lttng --no-sessiond list >/dev/null 2>&1; then
		echo "  (a session daemon is running: LTTng is not measured beside it)"
	else
		row "LTTng's tracepoint, no daemon" "$engine" tracepoint "$lib"
		timeout 20 lttng-sessiond --daemonize --no-kernel
		pid=$(cat /var/run/lttng/lttng-sessiond.pid 2>/dev/null || cat "$HOME/.lttng/lttng-sessiond.pid")
		trap 'kill "$pid"' EXIT
		row "LTTng's tracepoint, inactive" "$engine" tracepoint "$lib"
		{
			timeout 20 lttng create engines --output="$PWD/ctf"
			timeout 20 lttng enable-channel -u -s engines --buffers-pid --subbuf-size=4M --num-subbuf=4 waylay
			timeout 20 lttng enable-event -u -s engines -c waylay 'waylay:*'
			timeout 20 lttng start engines
		} >/dev/null
		row "LTTng's tracepoint, active" "$engine" tracepoint "$lib"
		row "Waylay by LTTng, active" "$engine" lttng "$lib"
		timeout 60 lttng stop engines >/dev/null
		timeout 60 lttng destroy engines >/dev/null
	fi
else
	echo "  (no LTTng here, or built without it)"
fi
if command -v uftrace >/dev/null && [ -x "$build/bench/uftrace_calls" ]; then
	row "uftrace, a call (two records)" uftrace record --no-libcall -d uftrace.data "$build/bench/uftrace_calls"
else
	echo "  (no uftrace here)"
fi
awk -F '\t' '{ least[$1] = $2 } END {
	spool = least["spool, the processor'"'"'s counter"]; lttng = least["LTTng'"'"'s tracepoint, active"]
	if (spool && lttng) printf "  an active tracepoint of LTTng costs %.1f times the spool, one time stamp, by the least\n", lttng / spool
}' least.txt
