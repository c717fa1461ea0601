#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# fi_pingpong, which knows nothing of us: its own output stays, and the trace holds the posts that its
# messages take (one receive and one send a message on each side, and one pair to say goodbye).
set -eu

command -v fi_pingpong >/dev/null || {
	echo "needs fi_pingpong"
	exit 77
}
messages=13
port=$((20000 + $$ % 20000))
pair() { # PROVIDER EXTRA-ENVIRONMENT...
	provider=$1
	shift
	env "$@" timeout 60 fi_pingpong -B $port -P $port -p "$provider" -e rdm -I $messages -S 1024 >server &
	server=$!
	tries=0
	until env "$@" timeout 60 fi_pingpong -B $((port + 1)) -P $port -p "$provider" -e rdm -I $messages -S 1024 \
		127.0.0.1 >client 2>client.err; do
		tries=$((tries + 1))
		if [ $tries -gt 20 ] || ! kill -0 $server 2>/dev/null; then
			kill $server 2>/dev/null || true
			return 1
		fi
		rm -rf out
	done
	wait $server
	# Times differ from run to run; the rest of each line must not.
	awk '{ print $1, $2, $3, $4 }' server client >"$provider.lines"
}
ran=0
for provider in shm 'tcp;ofi_rxm' sockets; do
	port=$((port + 10))
	pair "$provider" A=1 || continue
	mv "$provider.lines" plain.lines
	port=$((port + 10))
	rm -rf out
	pair "$provider" "WAYLAY_DIR=$PWD/out" "LD_PRELOAD=$WAYLAY_BUILD/libwaylay.so"
	diff plain.lines "$provider.lines"
	"$WAYLAY_BUILD/waylay" report --json out >report.json
	python3 - "$provider" $messages <<'PY'
import json, sys
report, messages = json.load(open("report.json")), int(sys.argv[2])
ops = {t["operation"]: t["count"] for t in report["transfers"]}
assert len(report["processes"]) == 2 and report["complete"], report["processes"]
assert ops == {"send": 2 * (messages + 1), "recv": 2 * (messages + 1)}, ops
assert all(t["unfinished"] == t["failed"] == 0 for t in report["transfers"]), report["transfers"]
print(sys.argv[1], ops, report["totals"]["completions"], "completions")
PY
	ran=$((ran + 1))
done
[ "$ran" -gt 0 ] || {
	echo "fi_pingpong runs over no provider here"
	exit 77
}
