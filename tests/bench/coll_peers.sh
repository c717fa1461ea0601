#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# waylay-coll-perf beside Open MPI, two ranks on this host, in one run: over the same libfabric provider
# (Open MPI's libfabric transport) and beside Open MPI's own shared memory. Each figure is the least of a
# few rounds, and the programs take turns, so that a busy moment of the machine meets all of them.
#
#   tests/bench/coll_peers.sh BUILD_DIR [ROUNDS]      prints a table
set -eu

build=$(cd "${1:?usage: tests/bench/coll_peers.sh BUILD_DIR [ROUNDS]}" && pwd)
rounds=${2:-3}
source=$(cd "$(dirname "$0")/../.." && pwd)
if ! command -v mpirun.openmpi >/dev/null || ! command -v mpicc.openmpi >/dev/null; then
	echo "this needs Open MPI (openmpi-bin, libopenmpi-dev)"
	exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mpicc.openmpi -O2 -o mpi "$source/tests/bench/mpi_collectives.c"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
: >figures

# About as long for each size, and short: a round in which nothing else ran is the best.
calls_of() { # BYTES
	case $1 in
	1024) echo 200 ;;
	65536) echo 40 ;;
	1048576) echo 5 ;;
	*) echo 1 ;;
	esac
}
rounds_of() { # BYTES
	case $1 in
	33554432) echo 7 ;;
	268435456) echo 2 ;;
	*) echo 101 ;;
	esac
}
theirs() { # NAME COLLECTIVE BYTES ARGUMENT...
	name=$1 collective=$2 bytes=$3
	shift 3
	line=$(timeout 300 mpirun.openmpi -n 2 --oversubscribe --bind-to core "$@" ./mpi "$collective" "$bytes" \
		"$(calls_of "$bytes")" "$(rounds_of "$bytes")" 2>/dev/null) || return 0
	echo "$name $line" >>figures
}
ours() { # NAME COLLECTIVE BYTES PROVIDER
	line=$(timeout 300 "$build/waylay-coll-perf" --np 2 --provider "$4" -b "$3" -e "$3" -c 0 -w 1 \
		-n "$(calls_of "$3")" --rounds "$(rounds_of "$3")" -a 3 --format csv "$2" 2>/dev/null | tail -n 1) || return 0
	echo "$1 $2 $3 $(echo "$line" | cut -d, -f9) $(echo "$line" | cut -d, -f11)" >>figures
}
for round in $(seq "$rounds"); do
	for collective in all_reduce all_gather reduce_scatter; do
		for bytes in 1024 65536 1048576 33554432 268435456; do
			ours ours-tcp "$collective" "$bytes" tcp
			theirs mpi-tcp "$collective" "$bytes" --mca pml cm --mca mtl ofi \
				--mca mtl_ofi_provider_include tcp
			ours ours-shm "$collective" "$bytes" shm
			theirs mpi-shm "$collective" "$bytes" --mca pml ob1 --mca btl self,vader
		done
	done
	echo "round $round of $rounds done" >&2
done
awk '
{ key = $2 " " $3; if (!(($1 " " key) in best) || $5 > best[$1 " " key]) best[$1 " " key] = $5
  if (!(key in seen)) { seen[key] = 1; order[++n] = key } }
function ratio(a, b) { return b > 0 ? sprintf("%.2f", a / b) : "-" }
END {
	print "| collective | bytes | ours, tcp | Open MPI, tcp | ratio | ours, shm | Open MPI, shared memory | ratio |"
	print "|---|---:|---:|---:|---:|---:|---:|---:|"
	for (i = 1; i <= n; i++) {
		split(order[i], k, " ")
		a = best["ours-tcp " order[i]]; b = best["mpi-tcp " order[i]]
		c = best["ours-shm " order[i]]; d = best["mpi-shm " order[i]]
		printf "| %s | %d | %.3f | %.3f | %s | %.3f | %.3f | %s |\n", k[1], k[2], a, b, ratio(a, b), c, d, ratio(c, d)
	}
}' figures
