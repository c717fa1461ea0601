#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What observers cost a training step: Waylay with its hooks (in one process, recording off and on in turn, and
# against a process without it), Waylay with CUPTI, the least CUPTI client, torch.profiler, nsys where it is.
# WAYLAY_TEST_NETS, WAYLAY_TEST_PAIRS, WAYLAY_TEST_OBSERVED (nets with all observers) choose less or more.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
need_python torch
${CC:-cc} -shared -fPIC -O1 -o cupti_bare.so "$WAYLAY_SOURCE/tests/gpu/cupti_bare.c" -ldl

nets=${WAYLAY_TEST_NETS:-small,gpt,gpt2,resnet}
python3 -c "import torchvision" 2>/dev/null || {
	nets=$(echo "$nets" | sed 's/,*resnet//')
	echo "resnet: no torchvision here"
}
nsys=$(command -v nsys || find /opt/nvidia /usr/local/cuda/bin -name nsys -type f -perm -u+x 2>/dev/null | head -n 1)
rm -rf rec.*
run="'$WAYLAY_BUILD/waylay' run -q --no-export"
bare="env CUDA_INJECTION64_PATH='$PWD/cupti_bare.so'"
some=${WAYLAY_TEST_OBSERVED:-small,gpt}
set -- "plain=" "waylay=$run --dir '$PWD/rec.{net}' --" "$some:cupti=$bare" \
	"$some:waylay+cupti=$run --gpu cupti --dir '$PWD/rec.cupti.{net}' --"
if [ "${WAYLAY_TEST_OBSERVERS:-all}" = all ]; then
	set -- "$@" "$some:cupti+calls=$bare CUPTI_BARE_CALLS=1" "$some:torch.profiler="
	[ -z "$nsys" ] ||
		set -- "$@" "$some:nsys='$nsys' profile -t cuda,nvtx -s none -o '$PWD/nsys.{net}' --force-overwrite true"
fi
python3 "$WAYLAY_SOURCE/tests/gpu/training_compare.py" "$nets" "${WAYLAY_TEST_PAIRS:-100}" "$@"
for net in $(echo "$nets" | tr , ' '); do
	"$WAYLAY_BUILD/waylay" report --json "rec.$net" >report.json
	python3 - "$net" <<'PY'
import json, sys
totals = json.load(open("report.json"))["totals"]
print(f"{sys.argv[1]:7} {totals['events']} events, {totals['launches']} launches, {totals['synchronizations']} waits recorded")
PY
done
