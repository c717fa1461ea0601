#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A million records from four processes through LTTng: into local files, through a relay daemon on loopback,
# and from two network namespaces, each with a session daemon of its own as two hosts have them, to a relay
# daemon in a third. All arrive, or what is missing is counted; where the job waits for the buffers
# (WAYLAY_TEST_LONG), all arrive.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs
# shellcheck source=tests/cli/lib/lttng.inc
. "$(dirname "$0")/lib/lttng.inc"
job=$build/tests/control_job
unset WAYLAY_BUILD WAYLAY_SOURCE
export WAYLAY_STACK=none
steps=35747 # of seven records
relay='' names=''
cleanup() {
	[ -z "$relay" ] || kill "$relay" 2>/dev/null
	for name in $names; do
		[ ! -s "run_$name/lttng-sessiond.pid" ] || kill "$(cat "run_$name/lttng-sessiond.pid")" 2>/dev/null
	done
	lttng_stop
	for name in $names; do ip netns del "$name" 2>/dev/null; done
}
trap cleanup EXIT

echo "steps $steps" >commands
# shellcheck disable=SC2016 # for the shell below
several='for i in $(seq "$2"); do "$1" <commands & done; wait'

# What came of PROCESSES' records, and what is missing of them, with what was counted as lost.
arrived() { # NAME DIR PROCESSES ALL(all|counted)
	waylay report --all-runs --json "$2" 2>err >report.json
	python3 - "$1" "$3" "$4" "$steps" <<'EOF' || fail "$1: $(cat err)"
import json, sys
name, processes, how, steps = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
r = json.load(open("report.json"))
wanted = processes * steps * 7
came = r["totals"]["events"]
lost = sum(sum(p["drops"].values()) for p in r["processes"])
missing = wanted - (came - processes * 2)  # each opens its device and a context
print("%s: %d records of %d processes arrived, %d missing, %d counted as lost" % (name, came, len(r["processes"]), missing, lost))
assert len(r["processes"]) == processes, r["processes"]
assert missing == 0 if how == "all" or lost == 0 else 0 <= missing <= lost
assert how != "all" or lost == 0
EOF
}
lttng_start || fail "the daemon does not start"
waylay run --sink lttng -q --no-export --dir local -- sh -c "$several" - "$job" 4 >out 2>err || fail "local: $?"
arrived "local files" local 4 counted
if [ -n "${WAYLAY_TEST_LONG:-}" ]; then
	waylay run --sink lttng --block -q --no-export --dir block -- sh -c "$several" - "$job" 4 >out 2>err || fail "blocking: $?"
	arrived "local files, the job waits" block 4 all
fi

port=$((20000 + $$ % 10000))
mkdir relayed
lttng-relayd -C "tcp://127.0.0.1:$port" -D "tcp://127.0.0.1:$((port + 1))" -L "tcp://127.0.0.1:$((port + 2))" \
	--output="$PWD/relayed" >relay.log 2>&1 9>&- &
relay=$!
tries=0
until waylay run --sink lttng --relay "127.0.0.1:$port" -q --no-export --dir relay_rec -- \
	sh -c "$several" - "$job" 4 >out 2>err && [ ! -s err ]; do
	tries=$((tries + 1)) # until it listens
	[ $tries -lt 20 ] || fail "the relay: $(cat err relay.log)"
	rm -rf relay_rec
done
kill "$relay"
wait "$relay"
relay=
arrived "relayed on loopback" relayed 4 counted
lttng_stop

# --- two hosts and a collector
unprivileged() {
	echo "no network namespaces here: two hosts not tried"
	exit 0
}
[ "$(id -u)" = 0 ] || unprivileged
command -v ip >/dev/null || unprivileged
command -v unshare >/dev/null || unprivileged
collector=wlc$$
ip netns add $collector 2>/dev/null || unprivileged
names=$collector
ip -n $collector link set lo up
mkdir collected
for host in 1 2; do
	name=wl$host-$$
	ip netns add "$name" || fail "ip netns"
	names="$names $name"
	ip link add "w$host$$" type veth peer name "c$host$$" || unprivileged
	ip link set "w$host$$" netns "$name"
	ip link set "c$host$$" netns $collector
	ip -n "$name" addr add "10.213.$host.2/24" dev "w$host$$"
	ip -n $collector addr add "10.213.$host.1/24" dev "c$host$$"
	ip -n "$name" link set lo up
	ip -n "$name" link set "w$host$$" up
	ip -n $collector link set "c$host$$" up
done
ip netns exec $collector lttng-relayd -C tcp://0.0.0.0:5342 -D tcp://0.0.0.0:5343 -L tcp://0.0.0.0:5344 \
	--output="$PWD/collected" >relay.log 2>&1 9>&- &
relay=$!
tries=0
until ip netns exec $collector sh -c 'grep -q ":14DE " /proc/net/tcp'; do
	tries=$((tries + 1))
	[ $tries -lt 100000 ] || fail "the collector does not listen"
done
for host in 1 2; do
	mkdir "run_wl$host-$$"
	# Its own host name, and its own place for the daemon's sockets.
	# shellcheck disable=SC2016 # for the shell below
	ip netns exec "wl$host-$$" unshare -m -u sh -c '
		hostname "host$1" && mkdir -p /run/lttng && mount --bind "$PWD/run_wl$1-$2" /run/lttng &&
			exec waylay run --sink lttng --relay "10.213.$1.1" -q --no-export --dir "rec$1" -- sh -c "$3" - "$4" 2' \
		- $host $$ "$several" "$job" >"host$host.out" 2>"host$host.err" 9>&- &
	eval "host$host=\$!"
done
# shellcheck disable=SC2154 # set above
wait "$host1" || fail "host 1: $(cat host1.err)"
# shellcheck disable=SC2154 # set above
wait "$host2" || fail "host 2: $(cat host2.err)"
[ ! -s host1.err ] || fail "host 1: $(cat host1.err)"
[ ! -s host2.err ] || fail "host 2: $(cat host2.err)"
arrived "two hosts to one relay daemon" collected 4 counted
[ "$(python3 -c 'import json; print(sorted({p["host"] for p in json.load(open("report.json"))["processes"]}))')" = "['host1', 'host2']" ] ||
	fail "the hosts in the report"
