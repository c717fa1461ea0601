#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The engines side by side: what a recorded event costs a job over not being traced (an NVTX range and waits
# without stacks, on the simulated driver), and how fast LTTng's traces are read, beside babeltrace2.
set -eu
for program in lttng lttng-sessiond babeltrace2; do
	command -v $program >/dev/null || { echo "no $program here" && exit 0; }
done
[ -e "$WAYLAY_BUILD/libwaylay-lttng.so" ] || { echo "built without LTTng-UST" && exit 0; }
build=$WAYLAY_BUILD
unset WAYLAY_BUILD WAYLAY_SOURCE
export LD_LIBRARY_PATH="$build/tests/fakecuda" WAYLAY_STACK=none WAYLAY_DIR="$PWD/rec"
steps=${WAYLAY_TEST_STEPS:-50000}
events=$((steps * 7))
echo "steps $steps" >commands

least() { # COMMAND...: the least of 5 runs, in us
	best=
	for _ in 1 2 3 4 5; do
		rm -rf rec
		start=$(date +%s%N)
		"$@" <commands >/dev/null 2>&1
		took=$((($(date +%s%N) - start) / 1000))
		[ -n "$best" ] && [ "$best" -le "$took" ] || best=$took
	done
	echo "$best"
}
row() { # NAME MICROSECONDS
	awk -v name="$1" -v us="$2" -v bare="$bare" -v events="$events" \
		'BEGIN { printf "  %-34s %8.1f ms  %6.1f ns an event over bare\n", name, us / 1000, (us - bare) * 1000 / events }'
}
traced() { env LD_PRELOAD="$build/libwaylay.so" "$@" "$build/tests/control_job"; }
bare=$(least "$build/tests/control_job")
row "bare" "$bare"
row "spool, the processor's counter" "$(least traced WAYLAY_CLOCK=tsc)"
row "spool, clock_gettime" "$(least traced WAYLAY_CLOCK=monotonic)"
row "recording off (waylay ctl stop)" "$(least traced WAYLAY_DELAY=1h)"
if timeout 10 lttng --no-sessiond list >/dev/null 2>&1; then
	echo "  a session daemon is running: LTTng is not measured beside it"
	exit 0
fi
row "LTTng asked for, no daemon: spool" "$(least traced WAYLAY_SINK=lttng)"
timeout 20 lttng-sessiond --daemonize --no-kernel
pid=$(cat /var/run/lttng/lttng-sessiond.pid 2>/dev/null || cat "$HOME/.lttng/lttng-sessiond.pid")
trap 'kill "$pid"' EXIT
row "LTTng asked for, no session: spool" "$(least traced WAYLAY_SINK=lttng)"
{
	timeout 20 lttng create bench --output="$PWD/ctf"
	timeout 20 lttng enable-channel -u -s bench --buffers-pid --subbuf-size=4M --num-subbuf=4 waylay
	timeout 20 lttng enable-event -u -s bench -c waylay 'waylay:*'
	timeout 20 lttng start bench
} >/dev/null
row "LTTng, active (with entry events)" "$(least traced WAYLAY_SINK=lttng)"
timeout 60 lttng stop bench >/dev/null
timeout 60 lttng destroy bench >/dev/null
"$build/bench/ctf_import" ctf 3 |
	awk '{ printf "  read: %d events, %d records, %.2f M events/s in, %.2f M/s in and walked over (processor time)\n", $1, $2, $3, $4 }'
start=$(date +%s%N)
babeltrace2 ctf -o dummy >/dev/null 2>&1 || true
echo "  babeltrace2 to nowhere: $((($(date +%s%N) - start) / 1000000)) ms elapsed"
