#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Jobs whose report is known: synchronizations by every rule there is, registrations beside a simulated cache
# of every size, detours in a mix with direct sends, ranks of which one is slow. The whole JSON report is compared, member by member; what
# cannot be known beforehand is listed in exact.py.
set -eu
build=$WAYLAY_BUILD/tests
[ -e "$build/fakecuda/libcuda.so.1" ] || { echo "no simulated CUDA driver in this build" && exit 77; }
ldd "$WAYLAY_BUILD/waylay" | grep -q libdw || { echo "built without libdw, by which lines are known" && exit 77; }
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
LD_LIBRARY_PATH="$build/fakecuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH

compare() { # KIND DIR COMMAND
	"$WAYLAY_BUILD/waylay" report --json "$2" >"$2.json"
	PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/ground_truth.py" "$1" "$2.json" "$2.txt" "$3" "$WAYLAY_SOURCE"
}

# --- synchronizations by every rule
WAYLAY_DIR=$PWD/rules LD_PRELOAD=$preload "$build/ground_rules" >rules.txt
compare rules rules "$build/ground_rules"

# --- registrations, detours and steps
[ -x "$build/ground_truth" ] || { echo "built without libfabric: rules alone" && exit 0; }
ran=0
for seed in 1 2 3; do
	for provider in shm 'tcp;ofi_rxm'; do
		status=0
		rm -rf job
		WAYLAY_DIR=$PWD/job LD_PRELOAD=$preload timeout 60 "$build/ground_truth" "$provider" "$seed" \
			>job.txt || status=$?
		[ "$status" -ne 77 ] || continue
		[ "$status" -eq 0 ]
		printf '%s %s: ' "$provider" "$seed"
		case $provider in *';'*) quoted="'$provider'" ;; *) quoted=$provider ;; esac
		compare mix job "$build/ground_truth $quoted $seed"
		ran=$((ran + 1))
	done
done

# --- ranks, one of them slow, or none. A busy machine can hold a rank up in more than half of its steps: one of
# three runs has to agree.
stragglers() { # PROVIDER SLOW
	case $1 in *';'*) quoted="'$1'" ;; *) quoted=$1 ;; esac
	for _ in 1 2 3; do
		status=0
		rm -rf ranks address.* new.*
		WAYLAY_DIR=$PWD/ranks LD_PRELOAD=$preload timeout 90 "$build/ground_straggler" "$1" "$2" >ranks.txt ||
			status=$?
		[ "$status" -ne 77 ] || return 0
		[ "$status" -eq 0 ] || return 1
		printf '%s: ' "$1"
		compare stragglers ranks "$build/ground_straggler $quoted $2" && return 0
	done
	return 1
}
stragglers shm 3
stragglers 'tcp;ofi_rxm' 0
stragglers 'tcp;ofi_rxm' -1

[ "$ran" -gt 0 ] || { echo "no libfabric provider works here" && exit 77; }
