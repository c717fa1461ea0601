#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# docs/walkthrough.md does what it says: every command of it, in order, with the status it promises.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs
page=$WAYLAY_SOURCE/docs/walkthrough.md

# Command lines are indented and begin with "$ "; "# exit N" at the end is the status, 0 without.
sed -n 's/^    \$ //p' "$page" >commands
[ "$(wc -l <commands)" -ge 5 ] || fail "no commands found in $page"
while read -r command <&3; do
	status=$(printf '%s\n' "$command" | sed -n 's/.*# exit \([0-9]*\)$/\1/p')
	expect "${status:-0}" sh -c "${command%%#*}"
	case $command in
	*"report before"*)
		says out "in ask_count"
		grep -q "sampler-naive *11 *2.0 *2" out || fail "the range is not told with its waits"
		;;
	*"run"*) ;;
	"waylay check"*)
		cat out err >both
		grep -q "sampler-" both || fail "the check does not name the range: $command"
		;;
	esac
done 3<commands
[ "$(field before "next(q['synchronizations_worst'] for q in r['ranges'] if q['name'] == 'sampler-naive')")" = 2 ] ||
	fail "the naive sampler does not wait twice a call"
[ "$(field after "sum(q['synchronizations'] for q in r['ranges'])")" = 0 ] || fail "the fused sampler waits"
