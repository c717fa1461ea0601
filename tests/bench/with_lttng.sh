#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs a command while an LTTng session of its own takes Waylay's events:  with_lttng.sh COMMAND...
# 77 where LTTng is not to be had, or where somebody's daemon runs already.
set -eu
for program in lttng lttng-sessiond; do
	command -v $program >/dev/null || exit 77
done
! timeout 10 lttng --no-sessiond list >/dev/null 2>&1 || exit 77
work=$(mktemp -d)
timeout 20 lttng-sessiond --daemonize --no-kernel >&2
pid=$(cat /var/run/lttng/lttng-sessiond.pid 2>/dev/null || cat "$HOME/.lttng/lttng-sessiond.pid")
trap 'kill "$pid"; for i in 1 2 3 4 5 6 7 8 9; do kill -0 "$pid" 2>/dev/null || break; sleep 0.5; done; rm -rf "$work"' EXIT
{
	timeout 20 lttng create waylay-bench --output="$work/ctf"
	timeout 20 lttng enable-channel -u -s waylay-bench --buffers-pid --subbuf-size=4M --num-subbuf=4 waylay
	timeout 20 lttng enable-event -u -s waylay-bench -c waylay 'waylay:*'
	timeout 20 lttng start waylay-bench
} >&2
status=0
"$@" || status=$?
timeout 60 lttng destroy waylay-bench >&2
exit $status
