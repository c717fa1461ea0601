#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs every test in a build:  tests/run.sh BUILD_DIR [NAME ...]
# A test is a cmocka program (tests/unit, in BUILD_DIR/tests) or a script in tests/cli, traced and gpu.
# Exit status 0 passes, 77 skips (its last line says why), anything else fails. Each runs in a temporary
# directory of its own, with WAYLAY_BUILD and WAYLAY_SOURCE set.
set -u

build=$(cd "${1:?usage: tests/run.sh BUILD_DIR [NAME ...]}" && pwd) || exit 1
shift
source=$(cd "$(dirname "$0")/.." && pwd)
limit=${WAYLAY_TEST_LIMIT:-240}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# A stray setting of the caller's must not reach the traced programs.
for variable in $(env | sed -n 's/^\(WAYLAY_[A-Z_]*\)=.*/\1/p'); do
	case $variable in WAYLAY_TEST_*) ;; *) unset "$variable" ;; esac
done
export WAYLAY_BUILD="$build" WAYLAY_SOURCE="$source"
# Open MPI refuses root and few cores unless told.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

passed=0 failed=0 skipped=0 failures=
wanted() { # NAME: asked for, or nothing was asked for
	[ $# -gt 1 ] || return 0
	name=$1
	shift
	for one in "$@"; do
		[ "$one" != "$name" ] || return 0
	done
	return 1
}
one() { # NAME COMMAND...
	name=$1
	shift
	mkdir -p "$work/$name"
	start=$(date +%s)
	(cd "$work/$name" && timeout -k 10 "$limit" "$@") >"$work/$name.log" 2>&1 </dev/null
	status=$?
	took=$(($(date +%s) - start))
	case $status in
	0)
		passed=$((passed + 1))
		printf 'PASS  %-34s %3ss\n' "$name" "$took"
		;;
	77)
		skipped=$((skipped + 1))
		printf 'SKIP  %-34s %s\n' "$name" "$(tail -n 1 "$work/$name.log")"
		;;
	*)
		failed=$((failed + 1))
		failures="$failures $name"
		printf 'FAIL  %-34s status %s\n' "$name" "$status"
		tail -n 40 "$work/$name.log" | sed 's/^/      | /'
		;;
	esac
	rm -rf "${work:?}/$name"
}

for program in "$build"/tests/test_*; do
	[ -x "$program" ] || continue
	name=$(basename "$program")
	wanted "$name" "$@" && one "$name" "$program"
done
for script in "$source"/tests/cli/*.sh "$source"/tests/traced/*.sh "$source"/tests/gpu/*.sh; do
	[ -e "$script" ] || continue
	name=$(basename "$(dirname "$script")")_$(basename "$script" .sh)
	wanted "$name" "$@" && one "$name" sh "$script"
done

[ -z "$failures" ] || printf 'failed:%s\n' "$failures"
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
