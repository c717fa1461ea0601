#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# torch.profiler and --gpu cupti in one process, in every order and repeatedly: torch.profiler's windows hold
# exactly the rows that they hold without Waylay, ours are complete through them, and each launch, copy and
# memset of the host has its activity in the order of its stream.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
need_python torch

for how in later first queued; do
	python3 "$WAYLAY_SOURCE/tests/gpu/cupti_share.py" $how >"alone.$how" 2>alone.err
	name=$how
	rm -rf "$name"
	"$WAYLAY_BUILD/waylay" run --gpu cupti --no-export --dir "$PWD/$name" -- \
		python3 "$WAYLAY_SOURCE/tests/gpu/cupti_share.py" $how >"shared.$how" 2>shared.err || {
		cat "shared.$how" shared.err
		exit 1
	}
	echo "== $how: $(grep rows "alone.$how" | tr '\n' ' ')"
	diff "alone.$how" "shared.$how"
	"$WAYLAY_BUILD/waylay" export -f jsonl -o "$name.jsonl" "$name" 2>/dev/null
	grep '"key":"cupti' "$name.jsonl"
	python3 "$WAYLAY_SOURCE/tests/gpu/lib/activity.py" "$name.jsonl"
done
