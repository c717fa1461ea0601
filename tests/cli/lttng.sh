#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The LTTng engine: what it records is what the spool records, event by event; a missing, hung or killed
# daemon never harms the job; damaged traces give what is whole; two ranks, a relay daemon, lost events.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs
command -v setarch >/dev/null || { echo "no setarch here" && exit 77; }
# shellcheck source=tests/cli/lib/lttng.inc
. "$(dirname "$0")/lib/lttng.inc"
lttng_start || fail "the daemon does not start"
job=$build/tests/control_job
dump=$build/tests/spool_dump
unset WAYLAY_BUILD WAYLAY_SOURCE

relay=
cleanup() {
	touch enough
	[ -z "$relay" ] || kill "$relay" 2>/dev/null
	lttng_stop
}
trap cleanup EXIT
# What happened, without what is different in every run; LTTng's libraries move what is mapped later, so
# an address stands as the how manieth it is.
events() { # DIR|FILE TO
	"$dump" --stacks "$1" >dumped || fail "reading $1"
	grep -v -e '^process' -e '^attribute' dumped | awk '{
		line = ""
		while (match($0, /=[57][0-9a-f]+/)) {
			word = substr($0, RSTART, RLENGTH)
			if (RLENGTH == 13) {
				if (!(word in known)) known[word] = ++count
				word = "=@" known[word]
			}
			line = line substr($0, 1, RSTART - 1) word
			$0 = substr($0, RSTART + RLENGTH)
		}
		print line $0
	}' >"$2"
}
run_lttng() { # DIR ARGUMENTS...
	dir=$1
	shift
	setarch -R waylay run --sink lttng -q --no-export --dir "$dir" "$@"
}

# --- the same program, both engines: equal but for times
run_both() { # NAME COMMAND...
	name=$1
	shift
	setarch -R waylay run -q --no-export --dir "spool_$name" "$@" >said_spool 2>err || fail "$name: the spool: $?"
	run_lttng "lttng_$name" "$@" >said_lttng 2>err || fail "$name: LTTng: $?"
	[ ! -s err ] || fail "words of the run: $(cat err)"
	cmp -s said_spool said_lttng || fail "$name: the job said something else"
	[ -z "$(find "lttng_$name" -name '*.wspool')" ] || fail "$name: a spool was made"
	events "$(echo "spool_$name"/*.wspool)" a
	events "lttng_$name"/lttng-* b
	[ "$(grep -c ^event a)" -ge 30 ] || fail "$name: only $(grep -c ^event a) events"
	cmp -s a b || fail "$name: $(diff a b | head -n 20)"
	waylay export --format jsonl -o a.jsonl "spool_$name" 2>words || fail "$name: jsonl of the spool: $(cat words)"
	waylay export --format jsonl -o b.jsonl "lttng_$name" 2>words || fail "$name: jsonl of LTTng's: $(cat words)"
	python3 same.py a.jsonl b.jsonl 2>words || fail "$name: the exports differ: $(tail -n 3 words)"
	for format in perfetto chrome; do
		waylay export --format $format -o a.out "spool_$name" 2>a.words || fail "$name: $format of the spool"
		waylay export --format $format -o b.out "lttng_$name" 2>b.words || fail "$name: $format of LTTng's"
		sed -e 's/.*: \([0-9]* slices.*flows\).*/\1/' a.words >a
		sed -e 's/.*: \([0-9]* slices.*flows\).*/\1/' b.words >b
		cmp -s a b || fail "$name: $format: $(cat a) / $(cat b)"
	done
}
cat >same.py <<'EOF'
# Exports of both, event by event: equal but for times, numbers that the system gave, and which number a stack got.
import json, re, sys
def rows(path):
    found, stacks, known = [], {}, {}
    def address(match):
        return "@%d" % known.setdefault(match.group(0), len(known))
    for line in open(path):
        row = json.loads(re.sub("0x[57][0-9a-f]{11}", address, line))
        if row["table"] == "stacks":
            stacks.setdefault(row["stack"], []).append({k: v for k, v in row.items() if k != "stack"})
        elif row["table"] not in ("meta", "facts", "processes"):
            found.append({k: v for k, v in row.items() if not k.endswith("_ns") and k not in ("tid", "pid")})
    for row in found:
        for where in (row, row.get("args", {})):
            if "stack" in where:
                where["stack"] = stacks.get(where["stack"])
    return found
a, b = rows(sys.argv[1]), rows(sys.argv[2])
for x, y in zip(a, b):
    assert x == y, "%s\n%s" % (x, y)
assert len(a) == len(b) > 30, (len(a), len(b))
EOF
echo 'steps 5
start 3
pid' >commands
sed -i /pid/d commands
run_both control sh -c "exec $job <commands"
run_both sampler sh -c "exec $(sampler naive 5) >/dev/null" # which prints times

# --- a second trace beside a spool; the run's own report
waylay run --sink lttng --dir report -- sh -c "exec $job <commands" >out 2>err || fail "run: $?"
says err "24 synchronizations"

# --- two ranks, one session of their host, which the last one ends
for rank in 0 1; do
	RANK=$rank WORLD_SIZE=2 WAYLAY_RUN=ranks waylay run --sink lttng --dir ranks -- sh -c "exec $job <commands" \
		>rank$rank.out 2>rank$rank.err &
	eval "rank$rank=\$!"
done
# shellcheck disable=SC2154 # set above
wait "$rank0" || fail "rank 0: $(cat rank0.err)"
# shellcheck disable=SC2154 # set above
wait "$rank1" || fail "rank 1: $(cat rank1.err)"
[ "$(field ranks "sorted(p['rank'] for p in r['processes'])")" = "[0, 1]" ] || fail "the ranks in the report"
timeout 20 lttng list | grep -q waylay- && fail "a session is left: $(lttng list)"

# --- damaged: a stream cut in a packet, metadata cut
echo 'steps 2003' >many
run_lttng cut sh -c "exec $job <many" >out 2>err || fail "many steps: $?"
"$dump" cut/lttng-* >text || fail "many steps cannot be read"
[ "$(grep -c '^event .* cuda_wait' text)" = 6009 ] || fail "many steps: $(grep -c '^event .* cuda_wait' text) waits"
grep -q -e ^drops -e ^damage text && fail "many steps: $(grep -e ^drops -e ^damage text)"
find cut -type f -name 'waylay_*' ! -path '*/index/*' -size +0 >streams
while read -r stream; do
	truncate -s $(($(stat -c %s "$stream") - 100)) "$stream"
done <streams
"$dump" cut/lttng-* >text || fail "a cut stream is refused"
grep -q "^damage .* bytes of packets that are not whole" text || fail "the cut is not spoken of: $(grep ^damage text)"
left=$(grep -c '^event .* cuda_wait' text)
[ "$left" -gt 3000 ] || fail "of a cut stream $left waits are left"
[ "$left" -lt 6009 ] || fail "nothing was cut"
cp -r lttng_control cut_metadata
metadata=$(find cut_metadata -name metadata)
truncate -s $(($(stat -c %s "$metadata") * 3 / 4)) "$metadata"
"$dump" cut_metadata/lttng-* >text 2>err
grep -q '^damage' text || grep -q 'the metadata' err || fail "cut metadata: $(cat err)"
: >"$metadata"
one_line 1 "the metadata ends before it says how events are written" waylay report cut_metadata
mkdir nothing && mkdir nothing/lttng-x
one_line 1 "there are no events in it" waylay report nothing

# --- a relay daemon
port=$((20000 + $$ % 10000))
mkdir relayed
lttng-relayd -C "tcp://127.0.0.1:$port" -D "tcp://127.0.0.1:$((port + 1))" -L "tcp://127.0.0.1:$((port + 2))" \
	--output="$PWD/relayed" >relay.log 2>&1 9>&- &
relay=$!
tries=0
until run_lttng relay_rec --relay "127.0.0.1:$port" sh -c "exec $job <commands" >out 2>err && [ ! -s err ]; do
	tries=$((tries + 1)) # until it listens
	[ $tries -lt 20 ] || fail "the relay: $(cat err relay.log)"
	rm -rf relay_rec
done
events "$(echo spool_control/*.wspool)" a
events relayed b
cmp -s a b || fail "relayed: $(diff a b | head -n 20)"
# Watched while it runs: what comes from then on.
url="net://127.0.0.1:$((port + 2))/host/$(hostname)/waylay-watched-$(hostname)"
(while [ ! -e enough ]; do echo steps 7 && sleep 0.1; done) |
	run_lttng watched --relay "127.0.0.1:$port" --run-id watched "$job" >/dev/null 2>err &
watched=$!
tries=0
until timeout -s INT 4 waylay report --json "$url" 2>watch.err >watch.json
	grep -q '"synchronizations": [1-9]' watch.json; do
	tries=$((tries + 1))
	[ $tries -lt 10 ] || fail "watching $url: $(cat watch.err err)"
done
touch enough
wait $watched || fail "the watched job: $?"
python3 - <<'EOF' || fail "what was seen of it: $(head -c 3000 watch.json)"
import json
r = json.load(open("watch.json"))
assert r["totals"]["synchronizations"] >= 21, r["totals"]
assert len(r["processes"]) == 1, r["processes"]
EOF
one_line 1 "no relay daemon answers there" waylay report "net://127.0.0.1:$((port + 3))/host/x/y"

# --- a session that somebody else made
{ timeout 20 lttng create theirs --output="$PWD/theirs" && timeout 20 lttng enable-event -u -s theirs 'other:*' &&
	timeout 20 lttng start theirs; } >/dev/null || fail "lttng create"
waylay run --sink lttng --session theirs --dir theirs_rec -- sh -c "exec $job <commands" >out 2>err || fail "joined: $?"
says err "recorded by the LTTng session theirs"
timeout 20 lttng stop theirs >/dev/null
timeout 20 lttng destroy theirs >/dev/null
events theirs b
events "$(echo spool_control/*.wspool)" a
grep -c ^event a >a.count
grep -c ^event b >b.count
cmp -s a.count b.count || fail "joined: $(cat a.count b.count)"
waylay run --sink lttng --session nosuch -q --no-export --dir nosuch -- sh -c "exec $job <commands" >out 2>err || fail "no such session: $?"
[ "$(wc -l <err)" = 1 ] && says err "recording to the spool instead"
events "$(echo nosuch/*.wspool)" b
[ "$(grep -c ^event b)" = "$(cat a.count)" ] || fail "the spool did not take over"

# --- the daemon is killed in the middle; it hangs; it is not there
waylay run --sink lttng -q --no-export --dir killed -- sh -c "
	(echo steps 100; sleep 0.2; kill -KILL $(cat "$pid_file"); sleep 0.2; echo steps 100; echo record 1) |
	{ $job; echo status \$?; }" >out 2>err || fail "a killed daemon: status $?"
says out "status 0"
says out "steps 100"
rm -f "$pid_file"
lttng_stop
lttng_start || fail "the daemon does not start again"
kill -STOP "$(cat "$pid_file")"
start=$(date +%s)
waylay run --sink lttng -q --no-export --dir hung -- sh -c "exec $job <commands" >out 2>err || fail "a hung daemon: status $?"
[ $(($(date +%s) - start)) -lt 30 ] || fail "a hung daemon held the job for long"
says err "the daemon does not answer; recording to the spool instead"
[ "$(wc -l <err)" = 1 ] || fail "more than a line: $(cat err)"
kill -CONT "$(cat "$pid_file")"
kill "$(cat "$pid_file")"
mkdir bin
for program in sh cat grep; do ln -s "$(command -v $program)" bin/; done
PATH=$build:$PWD/bin waylay run --sink lttng -q --no-export --dir none -- sh -c "exec $job <commands" >out 2>err || fail "no lttng: $?"
one=$(cat err)
[ "$(wc -l <err)" = 1 ] || fail "without lttng-tools: $one"
says err "lttng-tools is not installed; recording to the spool instead"
[ "$(find none -name '*.wspool' | wc -l)" = 1 ] || fail "without lttng-tools no recording"
