#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Triton's launcher is linked to libcuda, XLA looks every entry up: both are traced, both compute what they
# compute without Waylay.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
export XLA_PYTHON_CLIENT_PREALLOCATE=false

ran=
for which in triton jax; do
	python3 -c "import $which" 2>/dev/null || continue
	python3 "$WAYLAY_SOURCE/tests/gpu/triton_jax.py" $which >alone.log
	record $which python3 "$WAYLAY_SOURCE/tests/gpu/triton_jax.py" $which
	diff alone.log plain.log
	"$WAYLAY_BUILD/waylay" report $which
	"$WAYLAY_BUILD/waylay" report --json $which >$which.json
	ran="$ran $which"
done
[ -n "$ran" ] || {
	echo "needs Triton or JAX"
	exit 77
}
# shellcheck disable=SC2086 # $ran is a list
python3 - $ran <<'PY'
import json, sys
for which in sys.argv[1:]:
    report = json.load(open(f"{which}.json"))
    launches, waits = report["totals"]["launches"], report["totals"]["synchronizations"]
    assert launches >= (11 if which == "triton" else 7), (which, report["totals"])
    assert waits >= 1, (which, report["totals"])
    print(which, launches, "launches,", waits, "waits")
PY
