#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What observers cost a training step: Waylay with its hooks (in one process, recording off and on in turn, and
# against a process without it), Waylay with CUPTI, the least CUPTI client, torch.profiler, nsys where it is.
# WAYLAY_TEST_NETS, WAYLAY_TEST_PAIRS, WAYLAY_TEST_OBSERVERS=no choose less or more.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
need_python torch
${CC:-cc} -shared -fPIC -O1 -o cupti_bare.so "$WAYLAY_SOURCE/tests/gpu/cupti_bare.c" -ldl

nsys=$(command -v nsys || find /opt/nvidia /usr/local/cuda/bin -name nsys -type f -perm -u+x 2>/dev/null | head -n 1)
for net in ${WAYLAY_TEST_NETS:-small gpt gpt2 resnet}; do
	[ "$net" != resnet ] || python3 -c "import torchvision" 2>/dev/null || {
		echo "resnet: no torchvision here"
		continue
	}
	rm -rf "rec.$net" "rec.$net.cupti"
	run="'$WAYLAY_BUILD/waylay' run -q --no-export"
	set -- "plain=" "waylay=$run --dir '$PWD/rec.$net' --"
	if [ "${WAYLAY_TEST_OBSERVERS:-yes}" != no ]; then
		bare="env CUDA_INJECTION64_PATH='$PWD/cupti_bare.so'"
		set -- "$@" "cupti=$bare" "waylay+cupti=$run --gpu cupti --dir '$PWD/rec.$net.cupti' --" \
			"cupti+calls=$bare CUPTI_BARE_CALLS=1" "torch.profiler="
		[ -z "$nsys" ] || set -- "$@" "nsys='$nsys' profile -t cuda,nvtx -s none -o '$PWD/nsys.$net' --force-overwrite true"
	fi
	python3 "$WAYLAY_SOURCE/tests/gpu/training_compare.py" "$net" "${WAYLAY_TEST_PAIRS:-100}" "$@"
	"$WAYLAY_BUILD/waylay" report --json "rec.$net" >report.json
	python3 - "$net" <<'PY'
import json, sys
totals = json.load(open("report.json"))["totals"]
print(f"{sys.argv[1]:7} {totals['events']} events, {totals['launches']} launches, {totals['synchronizations']} waits recorded")
PY
done
