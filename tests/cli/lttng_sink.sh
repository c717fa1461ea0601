#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The demo and end-to-end tests once more, recorded through LTTng: none of them is told. WAYLAY_TEST_LONG: more
# of those that do not look at a spool's file itself.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs
# shellcheck source=tests/cli/lib/lttng.inc
. "$(dirname "$0")/lib/lttng.inc"
trap lttng_stop EXIT
lttng_start || fail "the daemon does not start"
WAYLAY_SINK=lttng
export WAYLAY_SINK

through_lttng() { # NAME: what lies in its directory was recorded so
	[ -n "$(find "$1" -type d -name 'lttng-*' | head -n 1)" ] || fail "$1: nothing went through LTTng"
	[ -z "$(find "$1" -name '*.[0-9]*.[0-9]*.wspool' | head -n 1)" ] || fail "$1: a spool was made: $(find "$1" -name '*.[0-9]*.[0-9]*.wspool')"
}
again() { # SCRIPT
	name=$(basename "$1" .sh)
	mkdir "$name"
	(cd "$name" && sh "$WAYLAY_SOURCE/tests/$1" >log 2>&1)
	status=$?
	case $status in
	0) through_lttng "$name" ;;
	77) echo "$name: skipped: $(tail -n 1 "$name/log")" ;;
	*) fail "$1 with --sink lttng: status $status: $(tail -n 5 "$name/log")" ;;
	esac
}

# --- the demo
mkdir demo
# It asks for the shell's own directory; what it prints last is the trace.
DEMO_DIR=$PWD/demo/waylay-out "$WAYLAY_SOURCE/scripts/demo.sh" "$build" >demo/out 2>demo/err || fail "the demo: $(tail -n 3 demo/err)"
through_lttng demo
grep -q '22 synchronizations held the host' demo/err || fail "the demo's report: $(cat demo/err)"
[ -s "$(tail -n 1 demo/out)" ] || fail "the demo's trace: $(cat demo/out)"

again cli/report.sh
again cli/walkthrough.sh
[ -z "${WAYLAY_TEST_LONG:-}" ] || for script in cli/baseline.sh cli/budgets.sh cli/export.sh; do
	again "$script"
done
