#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Help fits a screen, mistakes on the command line are one line and a documented status.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"

# --- help: 80 columns; a command's on 60 lines at most, the first page and most commands on 24
fits() { # LINES COMMAND...
	lines=$1
	shift
	expect 0 "$@"
	[ ! -s err ] || fail "words on standard error: $*"
	[ "$(wc -l <out)" -le "$lines" ] || fail "$(wc -l <out) lines of help: $*"
	[ "$(awk '{ if (length > most) most = length } END { print most }' out)" -le 80 ] ||
		fail "help wider than 80 columns: $*"
	says out "Usage: waylay"
}
fits 24 waylay --help
for command in report diff top view ctl pack unpack doctor; do
	says out "  $command"
	cp out all
	fits 24 waylay "$command" --help
	cp all out
done
fits 45 waylay check --help
says out --max-syncs
fits 40 waylay export --help
says out --max-size
fits 60 waylay run --help
cp out help_run
# Every setting has its option there.
sed -n 's/^WL_SETTING([a-z_]*, "[A-Z_]*", "\([a-z-]*\)",.*/\1/p' \
	"$WAYLAY_SOURCE/tracer/settings/settings.def" >options
[ "$(wc -l <options)" -ge 10 ] || fail "settings.def was not understood"
while read -r option; do
	[ -z "$option" ] || says help_run "--$option"
done <options

# --- version
expect 0 waylay --version
[ "$(cat out)" = "waylay $(cat "$WAYLAY_SOURCE/VERSION")" ] || fail "the version"

# --- mistakes
expect 64 waylay
says err "Usage: waylay"
one_line 64 "there is no command 'frobnicate'" waylay frobnicate
for command in report check diff top view export ctl pack unpack doctor; do
	one_line 64 "there is no option '--bogus'" waylay "$command" --bogus
	one_line 64 "there is no option '-Z'" waylay "$command" -Z
	says err "'waylay $command --help' lists the options"
done
one_line 125 "there is no option '--bogus'" waylay run --bogus -- true
one_line 125 "no command given" waylay run
one_line 125 "no command given" waylay run --
one_line 125 "'-1' is no whole number" waylay run --max-syncs -1 -- true
one_line 125 "no budget given" waylay run --range step -- true
one_line 125 "--output: no file given" waylay run --output= -- true

one_line 64 "'x' is one word too many" waylay doctor x
# Words that did not arrive are no success.
for command in doctor --help --version "run --help"; do
	# shellcheck disable=SC2086
	waylay $command >/dev/full 2>err && fail "$command to a full device"
	grep -q 'No space left on device' err || fail "$command to a full device"
done
# A directory for recordings that `waylay run` would make is no problem; one that cannot be is.
waylay doctor >out 2>err
grep -q 'ok   recordings  *\., .* free' out || fail "no waylay-out yet"
WAYLAY_DIR=$PWD/new/deep waylay doctor >out 2>err
grep -qF "$PWD, " out || fail "a directory to be made"
WAYLAY_DIR=$PWD/out waylay doctor >out 2>err && fail "a file is said to do for recordings"
grep -qF "$PWD/out is no directory that can be written to" out || fail "a file for recordings"
one_line 64 "two recordings are needed, not 1" waylay diff x
one_line 64 "two recordings are needed, not 3" waylay diff x y z
one_line 1 "reading x: No such file" waylay diff x y
one_line 64 "no budget given" waylay check
one_line 64 "no budget given" waylay check --range step
one_line 64 "no budget given" waylay check --allow 'x.py:*'
one_line 64 "--max-syncs wants N" waylay check --max-syncs
for number in '' -1 3x 0x10 ' 3' 18446744073709551615 99999999999999999999; do
	for option in max-syncs max-staged max-registrations skip; do
		[ "$option" != skip ] || [ "$number" != '' ] || continue
		one_line 64 "--$option: '$number' is no whole number" waylay check "--$option=$number"
	done
done
one_line 64 "no time such as 5ms" waylay check --max-held 5
one_line 64 "no time such as 5ms" waylay check --max-held 5min
one_line 64 "no time such as 5ms" waylay check --max-held 99999999999999999s
one_line 64 "is not NAME=N" waylay check --max-rule stream_wait
one_line 64 "there is no rule" waylay check --max-rule nosuch_rule=3
one_line 64 "is no whole number" waylay check --max-rule stream_wait=many
one_line 64 "is not NAME=N" waylay check --max-at =3
one_line 64 "--range: no name given" waylay check --max-syncs 3 --range ''
one_line 64 "say how to count inside" waylay check --max-syncs 3 --total
one_line 64 "say how to count inside" waylay check --max-syncs 3 --skip 1
one_line 64 "--total takes no value" waylay check --total=3
one_line 64 "exclude each other" waylay check --max-syncs 3 --all-runs --run x
one_line 64 "'pdf' is neither perfetto, chrome, csv, jsonl nor sqlite" waylay export --format pdf
one_line 64 "--output: no file given" waylay export -o ''
one_line 64 "or it is short for several" waylay check --max=3

# Options may be shortened and stand anywhere; what follows -- or the job's first word is the job's.
one_line 2 "reading nowhere: No such file" waylay check nowhere --max-sy=3
sanitized && exit 0 # a job would have to load the sanitizer's runtime first
expect 0 waylay run -q --no-ex -- printf '%s\n' --help -q
[ "$(cat out)" = "--help
-q" ] || fail "the job's own options"
expect 0 waylay run -q --no-export printf '%s\n' --max-syncs
[ "$(cat out)" = --max-syncs ] || fail "the job's own options without --"
