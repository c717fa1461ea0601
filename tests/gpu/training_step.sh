#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What observers cost a training step: Waylay with its hooks (in one process, recording off and on in turn, and
# whole runs without and with it in ABBA order), Waylay with CUPTI, the least CUPTI client, torch.profiler.
# WAYLAY_TEST_NETS, WAYLAY_TEST_PAIRS, WAYLAY_TEST_STEPS choose less or more.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
need_python torch
nets=${WAYLAY_TEST_NETS:-small gpt resnet}
pairs=${WAYLAY_TEST_PAIRS:-100}
steps=${WAYLAY_TEST_STEPS:-200}
program=$WAYLAY_SOURCE/tests/gpu/training_step.py
${CC:-cc} -shared -fPIC -O1 -o cupti_bare.so "$WAYLAY_SOURCE/tests/gpu/cupti_bare.c" -ldl

plain() { # NET [VARIABLE=VALUE...]
	net=$1
	shift
	env "$@" python3 "$program" "$net" whole "$steps" 2>/dev/null | awk '{ print $3 }'
}
traced() { # NET OPTIONS...
	net=$1
	shift
	rm -rf rec
	"$WAYLAY_BUILD/waylay" run -q --no-export --dir "$PWD/rec" "$@" -- python3 "$program" "$net" whole "$steps" 2>/dev/null | awk '{ print $3 }'
}
for net in $nets; do
	[ "$net" != resnet ] || python3 -c "import torchvision" 2>/dev/null || {
		echo "resnet: no torchvision here"
		continue
	}
	rm -rf rec
	"$WAYLAY_BUILD/waylay" run -q --no-export --dir "$PWD/rec" -- python3 "$program" "$net" paired "$pairs" 20 2>err || {
		cat err
		exit 1
	}
	{
		echo "plain $(plain "$net")"
		echo "waylay $(traced "$net")"
		echo "waylay $(traced "$net")"
		"$WAYLAY_BUILD/waylay" report --json rec >report.json
		echo "plain $(plain "$net")"
		echo "plain $(plain "$net")"
		echo "cupti $(plain "$net" CUDA_INJECTION64_PATH="$PWD/cupti_bare.so")"
		echo "waylay+cupti $(traced "$net" --gpu cupti)"
		echo "waylay+cupti $(traced "$net" --gpu cupti)"
		echo "cupti $(plain "$net" CUDA_INJECTION64_PATH="$PWD/cupti_bare.so")"
		echo "cupti+calls $(plain "$net" CUDA_INJECTION64_PATH="$PWD/cupti_bare.so" CUPTI_BARE_CALLS=1)"
		echo "torch.profiler $(python3 "$program" "$net" profiler "$steps" 2>/dev/null | awk '{ print $3 }')"
		echo "plain $(plain "$net")"
	} | tee "$net.times"
	python3 - "$net" <<'PY'
import json, statistics, sys
rows = {}
for line in open(sys.argv[1] + ".times"):
    name, value = line.split()
    rows.setdefault(name, []).append(float(value))
plain = statistics.median(rows["plain"])
for name, values in rows.items():
    print(f"{sys.argv[1]:8} {name:16} {statistics.median(values):9.3f} ms {100 * (statistics.median(values) / plain - 1):+7.2f} %")
totals = json.load(open("report.json"))["totals"]
print(f"{sys.argv[1]}: {totals['events']} events, {totals['launches']} launches, {totals['synchronizations']} synchronizations recorded in a whole run")
PY
done
