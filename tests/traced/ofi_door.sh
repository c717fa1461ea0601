#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The second door: what the first one sees is seen once with both open; a plugin that looks at its own
# libraries first and a program that libfabric is part of are seen by the second alone, exactly; FI_HOOK
# without LD_PRELOAD does too. Settings of FI_HOOK and FI_PROVIDER_PATH that were there are kept.
set -eu
tests=$WAYLAY_BUILD/tests
run() { # [VARIABLE=VALUE ...] OPTION... -- COMMAND...: its output, and the recordings in out
	rm -rf out
	WAYLAY_DIR=$PWD/out timeout 60 "$WAYLAY_BUILD/waylay" run --quiet --no-export "$@" >traced
	cmp plain traced
}
agrees() { # WHAT
	"$WAYLAY_BUILD/waylay" report --json out >report.json
	python3 - "$1" <<'PY'
import json, sys
report = json.load(open("report.json"))
want = {}
for line in open("plain"):
    name, *numbers = line.split()
    want[name] = int(numbers[0])
have = {t["operation"]: t["count"] for t in report["transfers"]}
have["completion"] = report["totals"]["completions"]
have["registration"] = report["registrations"]["count"]
have["closed"] = report["registrations"]["count"] - report["registrations"]["live"]
unfinished = sum(t["unfinished"] for t in report["transfers"])
if have != want or unfinished or not report["complete"]:
    sys.exit(f"{sys.argv[1]}: wanted {want}, have {have}; unfinished {unfinished}")
print(sys.argv[1], "agrees:", have)
PY
}
fabrics() { # how many fabrics the job opened, by the trace
	"$tests/spool_dump" out/*.wspool | grep -c "api=fi_fabric " || true
}

# libfabric as part of the program, where it can be linked so
static=
if ${CC:-cc} -O1 -o ops_static "$WAYLAY_SOURCE/tests/traced/ofi_ops.c" -l:libfabric.a -l:libpsm_infinipath.so.1 \
	-l:libpsm2.so.2 -l:librdmacm.so.1 -libverbs -lefa -latomic -lpthread -ldl 2>static.log; then
	static=./ops_static
else
	echo "libfabric cannot be linked into a program here: $(tail -n 1 static.log)"
fi

ran=0
for provider in shm 'tcp;ofi_rxm' sockets 'udp;ofi_rxd'; do
	status=0
	timeout 60 "$tests/ofi_ops" "$provider" >plain || status=$?
	if [ "$status" -eq 77 ]; then
		echo "$provider: $(cat plain)"
		continue
	fi
	[ "$status" -eq 0 ]
	ran=$((ran + 1))
	for program in ofi_ops ofi_ops_dl; do
		run --ofi-door -- "$tests/$program" "$provider"
		agrees "$provider, both doors, $program"
	done

	run -- "$tests/ofi_deepbind" "$tests/ofi_plugin.so" "$provider"
	[ ! -e out ] || [ -z "$(ls out)" ] || {
		echo "FAIL: the first door sees a plugin bound to its own libraries: this test shows nothing"
		exit 1
	}
	run --ofi-door -- "$tests/ofi_deepbind" "$tests/ofi_plugin.so" "$provider"
	agrees "$provider, plugin bound to its own libraries"
	[ "$(fabrics)" -eq 1 ] || {
		echo "FAIL: $(fabrics) fabrics opened by the job, not 1"
		exit 1
	}

	rm -rf out
	WAYLAY_DIR=$PWD/out FI_HOOK=waylay FI_PROVIDER_PATH=$PWD/door
	mkdir -p door && ln -sf "$WAYLAY_BUILD/libwaylay.so" door/waylay-fi.so
	WAYLAY_DIR=$WAYLAY_DIR FI_HOOK=$FI_HOOK FI_PROVIDER_PATH=$FI_PROVIDER_PATH \
		timeout 60 "$tests/ofi_ops" "$provider" >traced
	unset WAYLAY_DIR FI_HOOK FI_PROVIDER_PATH
	cmp plain traced
	agrees "$provider, nothing preloaded"

	[ -z "$static" ] || {
		run --ofi-door -- $static "$provider"
		agrees "$provider, libfabric part of the program"
	}
done

# What was set before stays, in front; twice is once.
cat >>want <<EOT
FI_HOOK=noop;waylay
FI_PROVIDER_PATH=/some/place:$PWD/out/ofi-door
EOT
rm -rf out
FI_HOOK=noop FI_PROVIDER_PATH=/some/place WAYLAY_DIR=$PWD/out "$WAYLAY_BUILD/waylay" run --quiet --ofi-door -- \
	"$WAYLAY_BUILD/waylay" run --quiet --ofi-door -- env | grep '^FI_' | sort >have
diff want have
if WAYLAY_DIR=$PWD/a:b "$WAYLAY_BUILD/waylay" run --ofi-door -- true 2>said; then
	echo "FAIL: a directory that FI_PROVIDER_PATH cannot carry is taken"
	exit 1
fi
grep -q 'colon.*--dir' said
"$WAYLAY_BUILD/waylay" doctor | grep -q 'libfabric hook .*--ofi-door can be used'
[ "$ran" -gt 0 ] || {
	echo "no libfabric provider works here"
	exit 77
}
