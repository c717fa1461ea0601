#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# waylay-coll-perf with real processes over real providers: every collective right for 2, 3 and 5
# ranks, the registration cache's effect, launchers, and what happens when a rank dies or never
# comes.
set -eu

perf=$WAYLAY_BUILD/waylay-coll-perf
if [ ! -x "$perf" ]; then
	echo "no waylay-coll-perf in this build (it needs libfabric's headers: libfabric-dev)"
	exit 77
fi
if ! providers=$("$perf" --list-providers 2>&1); then
	echo "$providers"
	exit 77
fi

die() {
	echo "FAILED: $*"
	[ ! -f out ] || sed 's/^/  out: /' out
	[ ! -f err ] || sed 's/^/  err: /' err
	exit 1
}
has() { # PROVIDER
	printf '%s\n' "$providers" | grep -qxF -e "$1"
}
# A field of the JSON output: number NAME FILE
number() {
	sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$2" | tail -n 1
}

# --- correctness --------------------------------------------------------------------------------
# Sizes of 0, odd ones, below and above a message's inject limit, and several chunks.
right() { # NP PROVIDER ARGUMENT...
	np=$1 provider=$2
	shift 2
	"$perf" --np "$np" --provider "$provider" --timeout 100 -n 2 -w 1 --format json "$@" \
		>out 2>err || die "status $? with $np ranks over $provider: $*"
	[ "$(number wrong out)" = 0 ] || die "wrong values with $np ranks over $provider: $*"
	rows=$(grep -c '"collective"' out)
	[ "$rows" -gt 0 ] || die "no results with $np ranks over $provider: $*"
	grep -q "\"ranks\":$np," out || die "not $np ranks"
	total=$((total + rows))
}
total=0
for provider in shm 'tcp;ofi_rxm'; do
	has "$provider" || { echo "provider $provider is not here"; continue; }
	for np in 2 3 5; do
		right $np "$provider" -b 0 -e 300000 -i 99991 --chunk 16K all
	done
	right 2 "$provider" -b 1004 -e 1004 -d all -o all all_reduce reduce_scatter
done
for provider in sockets 'udp;ofi_rxd' tcp; do
	has "$provider" || continue
	right 2 "$provider" -b 1004 -e 40000 -f 7 all
done
for algorithm in ring recursive-doubling rabenseifner; do
	has shm && right 3 shm --algorithm $algorithm -b 60004 -e 60004 -d float16,int64 -o avg,max
done
[ $total -gt 0 ] || { echo "no provider that this test knows: $providers"; exit 77; }
echo "$total results, none wrong"

# --- the registration cache ---------------------------------------------------------------------
"$perf" --np 2 -b 64K -e 64K -n 50 --format json >out 2>err || die "status $?"
with=$(number registrations out)
"$perf" --np 2 -b 64K -e 64K -n 50 --mr-cache off --format json >out 2>err || die "status $?"
without=$(number registrations out)
[ "$with" -le 5 ] || die "$with registrations although the cache is on"
[ "$without" -ge 150 ] || die "only $without registrations although the cache is off"
"$perf" --np 2 -b 4K -e 16K --reg-table >out 2>err || die "status $?"
grep -q '^# registration cost over' out || die "no registration table"
[ "$(grep -c ' %$' out)" = 2 ] || die "the registration table should have two rows"

# --- launchers ----------------------------------------------------------------------------------
port=$((20000 + $$ % 20000))
export MASTER_ADDR=127.0.0.1 MASTER_PORT=$port WORLD_SIZE=2
RANK=1 "$perf" -b 4K -e 4K >out1 2>err1 &
other=$!
RANK=0 "$perf" -b 4K -e 4K >out 2>err || die "status $? as rank 0 under torchrun's variables"
wait $other || die "rank 1 failed: $(cat err1)"
grep -q 'ranks 2 (torchrun)' out || die "the launcher is not named"
[ ! -s out1 ] || die "rank 1 printed to standard output"

# A rank that never comes: words and an end, in bounded time.
start=$(date +%s)
status=0
RANK=0 "$perf" --timeout 1 >out 2>err || status=$?
[ $status = 1 ] || die "status $status, not 1, when a rank does not come"
grep -q '1 of 2 ranks did not come within 1.0 s.*: 1' err || die "no word of who did not come"
status=0
RANK=1 "$perf" --timeout 1 >out 2>err || status=$?
[ $status = 1 ] || die "status $status, not 1, when rank 0 does not come"
grep -q "could not reach rank 0 at 127.0.0.1 port $port" err || die "no word of rank 0"
[ $(($(date +%s) - start)) -lt 20 ] || die "that took too long"
status=0
RANK=2 "$perf" >out 2>err || status=$?
[ $status = 1 ] || die "status $status, not 1, for rank 2 of 2"
grep -q 'RANK=2, but WORLD_SIZE=2' err || die "no word of RANK=2"
unset MASTER_ADDR MASTER_PORT WORLD_SIZE
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if command -v mpirun.openmpi >/dev/null; then
	mpirun.openmpi -n 2 --oversubscribe "$perf" -b 4K -e 4K >out 2>err || die "status $? under mpirun"
	grep -q 'ranks 2 (Open MPI)' out || die "Open MPI is not recognised"
fi

# --- a rank that dies ---------------------------------------------------------------------------
"$perf" --np 3 -b 1M -e 1M -n 100000000 -c 0 --timeout 60 >out 2>err &
parent=$!
tries=0
until grep -q '^# iters' out; do # measuring has begun
	tries=$((tries + 1))
	[ $tries -lt 300 ] || die "the ranks did not start"
	sleep 0.1
done
victim=
while [ -z "$victim" ]; do # the kernel's list can be short while it changes
	tries=$((tries + 1))
	[ $tries -lt 600 ] || die "no rank is to be found"
	victim=$(tr ' ' '\n' <"/proc/$parent/task/$parent/children" | grep . | tail -n 1)
	[ -n "$victim" ] || sleep 0.1
done
start=$(date +%s)
kill -KILL "$victim"
status=0
wait $parent || status=$?
[ $status = 137 ] || die "status $status, not 137, when a rank was killed"
[ $(($(date +%s) - start)) -lt 20 ] || die "the others took too long to end"
grep -q "(pid $victim) was ended by signal 9" err || die "no word of the signal"
[ "$(grep -c "waylay-coll-perf: rank .* ended before the others" err)" = 2 ] ||
	die "the other two ranks do not both say why they end"
rm -f "/dev/shm/$victim:"* # what the provider of a killed process leaves behind

# --- wrong use ----------------------------------------------------------------------------------
refused() { # STATUS PATTERN ARGUMENT...
	want=$1 pattern=$2
	shift 2
	status=0
	"$perf" "$@" >out 2>err || status=$?
	[ $status = "$want" ] || die "status $status, not $want: $*"
	grep -q -e "$pattern" err || die "no '$pattern' for: $*"
}
refused 64 "'12q' is not a size" -b 12q
refused 64 "more than --maxbytes" -b 2M -e 1M
refused 64 "'float8' is unknown" -d float8
refused 64 "'gather_all' is unknown" gather_all
refused 64 "would never grow" -f 1 -b 1 -e 2
refused 64 "'sideways' is unknown" --path sideways
refused 1 "offers no nosuch provider" --provider nosuch
refused 1 "there are 2 ranks" -r 2 broadcast
refused 1 "cannot write /nonexistent/x" -O /nonexistent/x -b 4 -e 4
echo "ok"
