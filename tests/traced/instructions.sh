#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The length of the path of an event, in instructions, which no other load of the machine changes. Callgrind
# counts two runs of different length; the difference is what one more event costs, edges of chunks (some 1300
# events) being spread over all. Bounds are what the path has now and a tenth.
set -eu
build=$WAYLAY_BUILD
command -v valgrind >/dev/null || { echo "no valgrind here" && exit 77; }
if ldd "$build/libwaylay.so" | grep -q 'lib[at]san'; then
	echo "built with a sanitizer, which adds instructions of its own"
	exit 77
fi
readelf --debug-dump=info "$build/tests/record_calls" 2>/dev/null | grep -m 1 -q 'DW_AT_producer.*-O2' ||
	{ echo "built without optimization" && exit 77; }

# Without what some compilers say about it for debuggers, which some valgrinds cannot read.
objcopy --strip-debug "$build/tests/record_calls" record_calls

count() { # WHICH COUNT: instructions inside of the calls
	valgrind --tool=callgrind --callgrind-out-file=out.callgrind --toggle-collect=counted_calls \
		./record_calls "$1" "$2" "$PWD" >log 2>&1 || {
		status=$?
		[ $status != 77 ] || { echo "this machine's TSC cannot be used" >&2 && exit 77; }
		cat log >&2
		echo "FAIL: $1" >&2
		exit 1
	}
	sed -n 's/^summary: \([0-9]*\).*/\1/p' out.callgrind
}
failed=
gate() { # WHICH BOUND WANTED(within|beyond)
	few=$(count "$1" 3001)
	many=$(count "$1" 13001)
	each=$(((many - few + 5000) / 10000))
	echo "$1: $each instructions, at most $2 ($3)"
	case $3 in
	within) [ "$each" -le "$2" ] || failed="$failed $1" ;;
	beyond) [ "$each" -gt "$2" ] || failed="$failed $1 (a longer path is not noticed)" ;;
	esac
}
gate instant 71 within
gate interval 90 within
gate waiting 116 within
gate longer 71 beyond
[ -z "$failed" ] || { echo "FAIL: longer than the bound:$failed" && exit 1; }
