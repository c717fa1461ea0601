#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every setting with a bad value: under `waylay run` an error before the job starts, as an option and as a
# variable; under a bare preload one line, and the job runs on with its own output and status.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs

# Both find these by their own means; as variables of the tracer they would be unknown.
source=$WAYLAY_SOURCE
unset WAYLAY_BUILD WAYLAY_SOURCE

# VARIABLE OPTION TYPE, - for no option
sed -n 's/^WL_SETTING([a-z_]*, "\([A-Z_]*\)", "\([a-z-]*\)", \([A-Z]*\),.*/\1 \2 \3/p' \
	"$source/tracer/settings/settings.def" | sed 's/  / - /' >settings
[ "$(wc -l <settings)" -ge 12 ] || fail "settings.def was not understood"

long=$(head -c 5000 /dev/zero | tr '\0' x)
bad_values() { # TYPE: one a line
	case $1 in
	BOOL) printf '%s\n' '' 2 maybe ;;
	SIZE) printf '%s\n' '' 0 1023 12Q -1 1.5G 99999999999999999999 17T ;;
	COUNT) printf '%s\n' '' 0 129 -1 3x ;;
	CLOCK) printf '%s\n' '' sundial ;;
	GPU) printf '%s\n' '' both ;;
	KINDS) printf '%s\n' '' kernel, ,copy kernels 'kernel copy' "$long" ;;
	STACKS) printf '%s\n' '' some ;;
	TRIGGER) printf '%s\n' held 'held > 5' '> 5ms' 'held > 5ms,' 'held < 5ms' 'a>1s,b>1s,c>1s,d>1s,e>1s' ;;
	SINK) printf '%s\n' '' ctf ;;
	TIME) printf '%s\n' '' 5 -1s 1.5s 3days 99999999999h ;;
	STEPS) printf '%s\n' 3 3:3 4:3 : a:b 1:2:3 -1:4 ;;
	RELAY) printf '%s\n' host:port host: host:0 host:65535 :5342 '[::1]:99999' "$long" ;;
	DIR) printf '%s\n' '' "$long" ;;
	TEXT) printf '%s\n' "$long" ;;
	*) echo "a type of settings that this test does not know: $1" >&2 ;;
	esac
}

tried=0
while read -r variable option type; do
	bad_values "$type" >values 2>err
	[ ! -s err ] || fail "$(cat err)"
	while IFS= read -r value; do
		tried=$((tried + 1))
		# The job must not start: it would leave a file.
		one_line 125 "$variable=" env "$variable=$value" waylay run -- touch started
		[ ! -e started ] || fail "the job started with $variable=$value"
		if [ "$option" != - ] && [ "$type" != BOOL ]; then
			one_line 125 "--$option: " waylay run "--$option=$value" -- touch started
			[ ! -e started ] || fail "the job started with --$option=$value"
		fi
		# shellcheck disable=SC2016
		expect 43 env "$variable=$value" LD_PRELOAD="$build/libwaylay.so" \
			sh -c 'echo out of the job; exit 43'
		[ "$(cat out)" = "out of the job" ] || fail "the job's output with $variable=$value"
		[ "$(wc -l <err)" = 1 ] || fail "not one line with $variable=$value"
		says err "$variable="
		says err "this process is not traced"
	done <values
	if [ "$type" = BOOL ] && [ "$option" != - ]; then
		one_line 125 "--$option takes no value" waylay run "--$option=1" -- touch started
	fi
done <settings
[ "$tried" -ge 40 ] || fail "only $tried bad values tried"

one_line 125 "WAYLAY_STAK: no such setting (nearest: WAYLAY_STACK" env WAYLAY_STAK=all waylay run -- true
echo "$tried bad values"
