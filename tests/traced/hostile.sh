#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Jobs that do what a tracer does not expect: with it and without it they say the same, end the same, and
# every wait that they count is in the recording, or counted there as missing.
set -u
build=$WAYLAY_BUILD/tests
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
unset WAYLAY_BUILD
[ -e "$build/fakecuda/libcuda.so.1" ] || { echo "no simulated CUDA driver in this build" && exit 77; }
[ -z "$runtime" ] || { echo "built with a sanitizer, whose address space has no limit" && exit 77; }
export LD_LIBRARY_PATH="$build/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fail() {
	echo "FAIL: $*"
	exit 1
}
recorded() { # of all recordings together, what is missing included
	all=0
	for recording in out/*.wspool; do
		"$build/spool_dump" "$recording" >dump || fail "$1: $recording cannot be read"
		all=$((all + $(grep -c ' cuda_wait .*api=cuStreamSynchronize ' dump)))
		lost=$(awk '/^drops/ { n += $NF } END { print n + 0 }' dump)
		all=$((all + lost))
		case "$lost $1" in
		"0 "* | *" another-root") ;;
		*) fail "$1: $lost lost: $(grep -e ^drops -e ^attribute.spool dump)" ;;
		esac
	done
}
same() { # NAME COMMAND... : with the preload and without
	name=$1
	shift
	rm -rf plain root out data
	"$@" >plain 2>plain.err
	plain=$?
	rm -rf root data
	WAYLAY_DIR=$PWD/out LD_PRELOAD=$preload "$@" >traced 2>traced.err
	traced=$?
	[ $plain = $traced ] || fail "$name: status $plain without us, $traced with us: $(cat traced traced.err)"
	[ ! -s traced.err ] || fail "$name: $(cat traced.err)"
}
names=$("$build/hostile_job")
[ "$(echo "$names" | wc -l)" -ge 12 ] || fail "the job has $names"
for name in $names early; do
	act=$name
	unset HOSTILE_EARLY
	if [ "$name" = early ]; then # in a constructor, before main
		act=started-programs
		export HOSTILE_EARLY=1
	fi
	same "$name" "$build/hostile_job" "$act"
	case $name in
	children-of-threads | cancelled-threads) # as many waits as there is time for
		grep -v '^waits' plain >want
		grep -v '^waits' traced >have
		;;
	*)
		cp plain want
		cp traced have
		;;
	esac
	cmp -s want have || fail "$name: said $(cat traced) with us, $(cat plain) without"
	recorded "$name"
	[ "$all" = "$(sed -n 's/^waits //p' traced)" ] || fail "$name: $(tail -n 1 traced), recorded $all"
	ran="${ran:-} $name $all"
done
echo "recorded:$ran"
