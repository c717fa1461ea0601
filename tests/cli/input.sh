#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What commands read: which run of a directory, and what they say about what is missing, foreign, torn or
# not theirs to read.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs

# --- nothing to read
for command in report "check --max-syncs 3" export; do
	status=1
	[ "${command#check}" = "$command" ] || status=2
	# shellcheck disable=SC2086
	{
		one_line $status "reading nowhere: No such file or directory" waylay $command nowhere
		one_line $status "reading waylay-out: No such file" waylay $command
		one_line $status "reading elsewhere: No such file" env WAYLAY_DIR=elsewhere waylay $command
		mkdir -p empty
		one_line $status "no recording in empty" waylay $command empty
		echo "no recording at all" >foreign.wspool
		one_line $status "cannot read foreign.wspool" waylay $command foreign.wspool
		head -c 100000 /dev/urandom >random.wspool
		one_line $status "cannot read random.wspool" waylay $command random.wspool
		: >nothing.wspool
		one_line $status "cannot read nothing.wspool" waylay $command nothing.wspool
		rm -f pipe.wspool
		mkfifo pipe.wspool
		one_line $status "cannot read pipe.wspool" waylay $command pipe.wspool
	}
	[ ! -e waylay.pftrace ] || fail "an export of nothing left a file"
done

# --- one run after another in one directory: the newest alone, unless told
# shellcheck disable=SC2046
{
	expect 0 waylay run -q --no-export --dir runs --run-id first -- $(sampler naive 3)
	expect 0 waylay run -q --no-export --dir runs --run-id second -- $(sampler naive 5)
}
calls() { # OPTIONS...
	waylay report --json runs "$@" 2>/dev/null | python3 -c '
import json, sys
print(sum(r["instances"] for r in json.load(sys.stdin)["ranges"] if r["name"] == "sampler-naive"))'
}
[ "$(calls)" = 5 ] || fail "the newest run: $(calls) calls"
[ "$(calls --run first)" = 3 ] || fail "the run asked for"
[ "$(calls --all-runs)" = 8 ] || fail "all runs"
expect 0 waylay report runs
says err "1 recordings of other runs left out"
expect 0 waylay report runs --all-runs
[ ! -s err ] || fail "words with --all-runs"
one_line 1 "no recording of run 'third'" waylay report runs --run third
one_line 2 "no recording of run 'third'" waylay check --max-syncs 3 runs --run third
# Files are taken as they are given, whatever their run.
expect 0 env WAYLAY_DIR=runs waylay report
says out "waylay-sampler-perf"

# --- a torn recording is read as far as it goes, said to be so, and no ground for a verdict
spool=$(find runs -name "*.wspool" | head -n 1)
size=$(wc -c <"$spool")
mkdir torn
for part in 1 10 50 90 99; do
	head -c $((size * part / 100)) "$spool" >torn/one.wspool
	waylay report torn >out 2>err </dev/null
	status=$?
	[ "$status" = 0 ] || [ "$status" = 1 ] || fail "status $status for $part % of a recording"
	[ -s err ] || [ -s out ] || fail "not a word about $part % of a recording"
	[ "$(wc -l <err)" -le 1 ] || fail "more than a line about $part % of a recording"
done
cp "$spool" torn/one.wspool
dd if=/dev/zero of=torn/one.wspool bs=1 seek=$((size / 2)) count=100 conv=notrunc 2>/dev/null
expect 0 waylay report torn

# --- one that cannot be read beside one that can: used without it, but no verdict
cp random.wspool runs/
expect 0 waylay report runs
says err "runs/random.wspool"
says err "left out"
[ "$(field runs 'r["complete"]')" = False ] || fail "complete in spite of an unreadable recording"
expect 2 waylay check --max-syncs 99999 runs
says out "CANNOT TELL: 1 recording could not be read"
expect 1 waylay check --max-syncs 3 runs
says out "EXCEEDED"
rm runs/random.wspool
expect 0 waylay check --max-syncs 99999 runs

# --- what is made from a recording never takes the place of one
cp "$spool" kept.wspool
one_line 0 "kept.wpack: 1 file" waylay pack -o kept.wpack kept.wspool
cp kept.wpack same.wpack
for file in kept.wspool kept.wpack; do
	for command in "export -o" "export -f sqlite -o" "report --html"; do
		# shellcheck disable=SC2086
		one_line 1 "writing $file: it is a recording" waylay $command $file kept.wspool
	done
	expect 2 waylay check --max-syncs 99999 --json $file kept.wspool
done
cmp kept.wspool "$spool" || fail "a recording was overwritten"
cmp kept.wpack same.wpack || fail "a pack was overwritten"

# --- one that may not be read, in a place that may
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
	open=$(mktemp -d)
	trap 'rm -rf "$open"' EXIT
	cp "$spool" "$open/one.wspool"
	chmod 600 "$open/one.wspool"
	chmod 755 "$open"
	if setpriv --reuid 65534 --regid 65534 --clear-groups "$build/waylay" --version >/dev/null 2>&1; then
		one_line 1 "cannot read $open/one.wspool: Permission denied" \
			setpriv --reuid 65534 --regid 65534 --clear-groups "$build/waylay" report "$open"
	fi
elif [ "$(id -u)" != 0 ]; then
	cp "$spool" secret.wspool
	chmod 000 secret.wspool
	one_line 1 "cannot read secret.wspool: Permission denied" waylay report secret.wspool
fi
