#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A GPT's training steps with an .item(), a pageable copy from a DataLoader, a clip_grad_norm_ that looks at
# its result: each is named by its line on the first screen of the report, once a step.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
need_python torch

program=$WAYLAY_SOURCE/tests/gpu/first_screen.py
for habit in item pageable clip; do
	line=$(grep -n "# HERE $habit" "$program" | cut -d: -f1)
	record "$habit" python3 "$program" --habit "$habit" --steps 40
	"$WAYLAY_BUILD/waylay" report "$habit" >"$habit.txt"
	head -n 24 "$habit.txt"
	head -n 24 "$habit.txt" | grep -q "first_screen.py:$line" || {
		echo "FAIL: $habit: line $line is not on the first screen"
		exit 1
	}
	"$WAYLAY_BUILD/waylay" report --json "$habit" >"$habit.json"
	python3 - "$habit" "$line" <<'PY'
import json, sys
habit, line = sys.argv[1], int(sys.argv[2])
report = json.load(open(habit + ".json"))
sites = [s for s in report["sites"] if s["file"] and s["file"].endswith("first_screen.py") and s["line"] == line]
count = sum(s["count"] for s in sites if s["class"] == "waits")
assert count >= 40, (habit, sites)
print(habit, "line", line, "waits", count, sorted({s["rule"] for s in sites}))
PY
done
