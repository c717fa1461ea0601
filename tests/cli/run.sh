#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `waylay run` between a caller and a job: status, streams, signals, launchers, a run within a run.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs

# --- the job's own status
expect 0 waylay run -q -- true
[ -z "$(cat out err)" ] || fail "words around a job that has none"
for status in 1 2 42 64 125 126 127 255; do
	expect $status waylay run -q -- sh -c "exit $status"
done
for signal in 9 15 11; do
	expect $((128 + signal)) waylay run -q -- sh -c "kill -$signal \$\$"
done
# (A folder in PATH that may not be read would make it "Permission denied", as for env.)
one_line 127 "starting 'nosuch-command': there is no such command" \
	env PATH="$build:/usr/bin:/bin" waylay run -- nosuch-command
one_line 127 "starting './nosuch': there is no such command" waylay run -- ./nosuch
: >plain
one_line 126 "starting './plain': Permission denied" waylay run -- ./plain
one_line 126 "starting '/': Permission denied" waylay run -- /
printf '#!/no/such/interpreter\n' >script
chmod +x script
one_line 127 "starting './script': it is there, but the interpreter" waylay run -- ./script
# As env does, a file without a first line for the kernel is the shell's.
printf 'exit 47\n' >script
expect 47 waylay run -q -- ./script
# The job's failure comes before the gate's.
# shellcheck disable=SC2046
expect 3 waylay run -q --no-export --max-syncs 0 -- sh -c "$(sampler naive 3) >/dev/null; exit 3"
says err "EXCEEDED"

# --- streams: the job has ours, our words are on standard error alone
printf 'one\ntwo\n' | waylay run --no-export -- cat >out 2>err || fail "cat"
[ "$(cat out)" = "one
two" ] || fail "the job's input and output"
says err "nothing was recorded"
waylay run -q -- sh -c 'echo to stderr >&2' >out 2>err
[ "$(cat out err)" = "to stderr" ] || fail "the job's standard error"
# shellcheck disable=SC2046
expect 0 waylay run --no-export -- $(sampler naive 3)
says err "Costliest"
! grep -q Costliest out || fail "a report on standard output"
says out naive

# --- no file of ours in the job's folder but the trace; recordings where --dir says, also three deep
# shellcheck disable=SC2046
expect 0 waylay run -q --dir a/b/c -- $(sampler fused 3)
[ -s waylay-sampler-perf.pftrace ] || fail "no trace under the job's name"
ls a/b/c/*.wspool >/dev/null 2>&1 || fail "no recording in a/b/c"
# shellcheck disable=SC2046
expect 0 waylay run -q --dir a/b/c -o here.pftrace -- $(sampler fused 3)
[ -s here.pftrace ] || fail "no trace where --output says"

# --- a job killed in the middle of a wait: which call, and where
cat >hang.sh <<'EOF'
waylay-sampler-perf --backend cuda --variant naive --n 2000 --calls 1000000 --warmup 0 >/dev/null &
job=$!
until ls hung/*.wspool >/dev/null 2>&1; do :; done
dd if=/dev/urandom bs=4M count=5 2>/dev/null | cksum >/dev/null
kill -9 $job
wait $job
exit 0
EOF
waylay run --no-export --dir hung -- sh hang.sh >out 2>err || fail "the job around a killed one"
says err "waylay-sampler-perf"
# It was killed somewhere: most likely in a wait or launch, of which at most one did not return.
[ "$(field hung 'len(r["unreturned"])')" -le 1 ] || fail "one thread in several calls"
[ "$(field hung 'r["processes"][0]["ended"]')" = False ] || fail "a killed process ended in good order"
[ "$(field hung 'r["complete"]')" = True ] || fail "a killed process alone is not incomplete"

# --- signals
waits_for() { # FILE: the job has come so far
	tries=0
	until [ -s "$1" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 2000000 ] || fail "the job did not come to $1"
	done
}
# What is sent to waylay alone reaches the job, which decides.
for signal in TERM INT QUIT HUP USR1 USR2; do
	rm -f ready got
	cat >trap.sh <<EOF
trap 'echo $signal >got; kill \$child; exit 31' $signal
sleep 100 &
child=\$!
echo yes >ready
wait \$child
EOF
	# A background job of a shell ignores INT and QUIT, which cannot be trapped then: python undoes it.
	python3 -c '
import os, signal, sys
for one in signal.SIGINT, signal.SIGQUIT:
    signal.signal(one, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])' waylay run -q -- sh trap.sh >out 2>err &
	waylay=$!
	waits_for ready
	kill -$signal $waylay
	wait $waylay
	status=$?
	[ "$status" = 31 ] || fail "status $status after SIG$signal to waylay"
	[ "$(cat got 2>/dev/null)" = $signal ] || fail "SIG$signal did not reach the job"
done
# The terminal sends ^C and ^Z to all of the foreground: the job gets ^C once, decides, and the report comes.
python3 - "$build" <<'EOF' || fail "^C and ^Z on a terminal"
import os, pty, signal, sys, time

def until(fd, words, seconds=60):
    seen = b""
    end = time.time() + seconds
    while words not in seen:
        if time.time() > end:
            sys.exit("no %r in %r" % (words, seen))
        try:
            more = os.read(fd, 4096)
        except OSError:
            more = b""
        if not more:
            sys.exit("no %r in %r" % (words, seen))
        seen += more
    return seen

job = r'''
import signal, sys
count = 0
def got(number, frame):
    global count
    count += 1
    print("interrupt", count, flush=True)
signal.signal(signal.SIGINT, got)
print("ready", flush=True)
while sys.stdin.readline().strip() != "end":
    print("line", flush=True)
sys.exit(23)
'''
pid, fd = pty.fork()
if pid == 0:
    os.execvp("waylay", ["waylay", "run", "--no-export", "--", sys.executable, "-c", job])
until(fd, b"ready")
os.write(fd, b"\x03")
until(fd, b"interrupt 1")
os.write(fd, b"one\n")
if b"interrupt 2" in until(fd, b"line"):
    sys.exit("^C came twice")
# ^Z stops both (their group is orphaned here, so the terminal's own signal would be left out).
os.killpg(pid, signal.SIGSTOP)
os.waitpid(pid, os.WUNTRACED)
os.killpg(pid, signal.SIGCONT)
os.write(fd, b"two\n")
until(fd, b"line")
os.write(fd, b"end\n")
until(fd, b"nothing was recorded")
_, status = os.waitpid(pid, 0)
if os.waitstatus_to_exitcode(status) != 23:
    sys.exit("status %d" % os.waitstatus_to_exitcode(status))
EOF
# What is ignored stays ignored in the job.
(trap '' HUP && waylay run -q -- sh -c 'kill -HUP $$; exit 29') >out 2>err
[ $? = 29 ] || fail "an ignored signal"

# --- under a launcher run only records, and is the job (the same process)
rm -rf ranks
for rank in 0 1; do
	# shellcheck disable=SC2046,SC2016
	env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank waylay run --dir ranks --run-id both -- \
		sh -c 'echo $$ >pid; exec "$@"' sh $(sampler naive 3) >out 2>err &
	waylay=$!
	wait $waylay || fail "rank $rank"
	[ "$(cat pid)" = $waylay ] || fail "waylay stands between the launcher and rank $rank"
	! grep -q Costliest err || fail "a report from rank $rank"
done
[ "$(field ranks '[p["rank"] for p in r["processes"]]')" = "[0, 1]" ] || fail "ranks in the report"
expect 0 waylay check --range sampler-naive --max-syncs 2 ranks
# A gate cannot be judged there, and that is said.
one_line 0 "under a launcher 'run' only records" env RANK=0 WORLD_SIZE=2 waylay run --max-syncs 3 -- true
# One of two ranks is no whole job.
rm "$(find ranks -name '*.wspool' | tail -n 1)"
expect 2 waylay check --range sampler-naive --max-syncs 2 ranks
says out "only 1 of 2 ranks were recorded"
# A world of one is a plain run.
# shellcheck disable=SC2046
expect 1 env RANK=0 WORLD_SIZE=1 waylay run -q --no-export --max-syncs 0 -- $(sampler naive 3)
says err EXCEEDED

# --- a run within a run judges its own job alone
rm -rf nested
cat >outer.sh <<EOF
$(sampler naive 3) >/dev/null
waylay run -q --no-export --range sampler-fused --max-syncs 0 -- $(sampler fused 3) >/dev/null || exit 37
waylay run -q --no-export --range sampler-naive --max-syncs 0 -- $(sampler naive 3) >/dev/null && exit 38
exit 0
EOF
expect 0 waylay run --no-export --dir nested -- sh outer.sh
[ "$(grep -c EXCEEDED err)" = 1 ] || fail "the inner run's verdicts"
says err "1 process on 1 host"
! grep -q 'wrong ELF\|cannot be preloaded' err || fail "the preload within a preload"

# --- what the job finds in its environment
# shellcheck disable=SC2016
expect 0 env LD_PRELOAD= waylay run -q -- sh -c 'printf "%s\n%s\n%s" "$LD_PRELOAD" "$WAYLAY_DIR" "$WAYLAY_RUN"'
[ "$(sed -n 1p out)" = "$build/libwaylay.so" ] || fail "LD_PRELOAD"
[ "$(sed -n 2p out)" = "$PWD/waylay-out" ] || fail "WAYLAY_DIR"
[ -n "$(sed -n 3p out)" ] || fail "WAYLAY_RUN"
