#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs every test in a build:  tests/run.sh BUILD_DIR [NAME ...]
# A test is a cmocka program (tests/unit, in BUILD_DIR/tests) or a script in tests/cli, traced and gpu.
# Exit status 0 passes, 77 skips (its last line says why), anything else fails. Each runs in a temporary
# directory of its own, with WAYLAY_BUILD and WAYLAY_SOURCE set; as many at once as there are processors
# (WAYLAY_TEST_JOBS), none for longer than WAYLAY_TEST_LIMIT seconds (240).
set -u

# --- one test: run.sh --one PATH, started below ---------------------------------------------------
if [ "${1:-}" = --one ]; then
	path=$2
	case $path in
	*.sh)
		name=$(basename "$(dirname "$path")")_$(basename "$path" .sh)
		command="sh"
		;;
	*)
		name=$(basename "$path")
		command=
		;;
	esac
	mkdir -p "$WAYLAY_TEST_WORK/$name"
	log=$WAYLAY_TEST_WORK/$name.log
	start=$(date +%s)
	(cd "$WAYLAY_TEST_WORK/$name" && timeout -k 10 "${WAYLAY_TEST_LIMIT:-240}" $command "$path") \
		>"$log" 2>&1 </dev/null
	status=$?
	took=$(($(date +%s) - start))
	case $status in
	0) printf 'PASS  %-34s %3ss\n' "$name" "$took" ;;
	77) printf 'SKIP  %-34s %s\n' "$name" "$(tail -n 1 "$log")" ;;
	*) printf 'FAIL  %-34s status %s\n%s\n' "$name" "$status" "$(tail -n 40 "$log" | sed 's/^/      | /')" ;;
	esac
	rm -rf "${WAYLAY_TEST_WORK:?}/$name"
	echo "$status $name" >>"$WAYLAY_TEST_WORK/results"
	exit 0
fi

# --- all of them ----------------------------------------------------------------------------------
build=$(cd "${1:?usage: tests/run.sh BUILD_DIR [NAME ...]}" && pwd) || exit 1
shift
source=$(cd "$(dirname "$0")/.." && pwd)
WAYLAY_TEST_WORK=$(mktemp -d)
trap 'rm -rf "$WAYLAY_TEST_WORK"' EXIT
# A stray setting of the caller's must not reach the traced programs.
for variable in $(env | sed -n 's/^\(WAYLAY_[A-Z_]*\)=.*/\1/p'); do
	case $variable in WAYLAY_TEST_*) ;; *) unset "$variable" ;; esac
done
WAYLAY_BUILD=$build WAYLAY_SOURCE=$source
# Open MPI refuses root and few cores unless told.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export WAYLAY_TEST_WORK WAYLAY_BUILD WAYLAY_SOURCE OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM

wanted() { # NAME ALL...: asked for, or nothing was asked for
	[ $# -gt 1 ] || return 0
	name=$1
	shift
	for one in "$@"; do
		[ "$one" != "$name" ] || return 0
	done
	return 1
}
for path in "$source"/tests/cli/*.sh "$source"/tests/traced/*.sh "$source"/tests/gpu/*.sh "$build"/tests/test_*; do
	[ -f "$path" ] || continue # a pattern that matches nothing
	case $path in
	*.sh) name=$(basename "$(dirname "$path")")_$(basename "$path" .sh) ;;
	*) name=$(basename "$path") ;;
	esac
	wanted "$name" "$@" && printf '%s\0' "$path"
done >"$WAYLAY_TEST_WORK/list"
xargs -0 -r -n 1 -P "${WAYLAY_TEST_JOBS:-$(nproc)}" sh "$source/tests/run.sh" --one <"$WAYLAY_TEST_WORK/list"

touch "$WAYLAY_TEST_WORK/results"
passed=$(grep -c '^0 ' "$WAYLAY_TEST_WORK/results")
skipped=$(grep -c '^77 ' "$WAYLAY_TEST_WORK/results")
total=$(tr -cd '\0' <"$WAYLAY_TEST_WORK/list" | wc -c)
failed=$((total - passed - skipped))
[ "$failed" -eq 0 ] || printf 'failed:%s\n' "$(grep -v -e '^0 ' -e '^77 ' "$WAYLAY_TEST_WORK/results" | sed 's/^[0-9]*//' | tr -d '\n')"
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
