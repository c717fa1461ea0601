#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A program with prime numbers of CUDA calls on the simulated driver, whichever way it finds them: the
# trace holds exactly what the program says it did, and the program's own output is unchanged.
set -eu
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"

# Lines of the program or of a dump, the same records added up.
add_up() {
	awk '{ count = $1; bytes = $2; sub(/^[0-9]+ [0-9]+ /, ""); counts[$0] += count; sums[$0] += bytes }
		END { for (line in counts) print counts[line], sums[line], line }' | LC_ALL=C sort
}
# "COUNT BYTES EVENT chosen arguments" of a dump's events
records() {
	awk '$1 == "event" && $3 ~ /^cuda_/ {
		split("", value)
		for (i = 4; i <= NF; i++) { at = index($i, "="); value[substr($i, 1, at - 1)] = substr($i, at + 1) }
		line = $3 " api=" value["api"]
		if ($3 == "cuda_mem") line = line " op=" value["op"] " kind=" value["kind"]
		if ($3 == "cuda_copy") line = line " dst_kind=" value["dst_kind"] " src_kind=" value["src_kind"]
		if ($3 == "cuda_memset") line = line " dst_kind=" value["dst_kind"]
		if ($3 == "cuda_launch") line = line " kernel=" value["kernel"]
		if ($3 == "cuda_graph") line = line " nodes=" value["nodes"]
		if ("rule" in value) line = line " rule=" value["rule"] " cls=" value["cls"]
		flags = $NF; sub(/^flags=/, "", flags)
		print 1, value["bytes"] + 0, line " status=" value["status"] " flags=" flags
	}'
}

export LD_LIBRARY_PATH="$WAYLAY_BUILD/tests/fakecuda"
for program in cuda_calls cuda_calls_dlsym cuda_calls_lookup; do
	"$WAYLAY_BUILD/tests/$program" >plain
	rm -rf out
	WAYLAY_DIR=$PWD/out LD_PRELOAD="$preload" "$WAYLAY_BUILD/tests/$program" >traced
	cmp plain traced
	"$WAYLAY_BUILD/tests/spool_dump" out/*.wspool >dump
	add_up <plain >want
	records <dump | add_up >have
	diff want have >differs || {
		echo "$program: wanted <, recorded >"
		cat differs
		exit 1
	}
	# a wait, a stage and a registration have a stack, other calls none
	awk '$1 == "event" && $3 ~ /^cuda_/ && / stack=/ && / status=0 / {
		needs = / cls=(waits|stages)/ || / op=register/ || / api=cuMemHostAlloc/
		if (needs != / stack=yes/) { print "stack: " $0; bad = 1 }
	} END { exit bad }' dump
	# 29 queries of the run that another call ended, at least 32 of the loop
	grep -q 'cuda_poll .*api=cuStreamQuery polls=29 status=600' dump
	awk '/rule=query_loop/ { sub(/.* polls=/, ""); if ($1 < 32) exit 1; found = 1 } END { exit !found }' dump
	grep -q '^attribute cuda.simulated 1$' dump
	grep -q '^attribute cuda.driver 13.0$' dump
	if grep '^attribute cuda.unknown-entry\|^drops' dump; then
		exit 1
	fi
	echo "$program: $(awk '{ n += $1 } END { print n }' have) records as the program says"
done

# Without a driver behind it an exported name answers as the toolkit's stub library does.
unset LD_LIBRARY_PATH
[ "$("$WAYLAY_BUILD/tests/cuda_no_driver")" = "no CUDA" ]
LD_PRELOAD="$preload" WAYLAY_DIR=$PWD/none "$WAYLAY_BUILD/tests/cuda_no_driver"
[ ! -e none ]
