#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `waylay top` beside a running job: its last figures are the report's, it ends with the job however that
# ends, and the job's recording is as without it.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs

one_line 64 "is no time" waylay top --interval never
one_line 64 "is no whole number above 0" waylay top --frames 0
one_line 64 "one word too many" waylay top a b
expect 1 waylay top nowhere
[ ! -s out ] || fail "figures of nothing"

figures() { # FILE: events, synchronizations, registrations of its last line
	sed -n '$s/^\([0-9,]*\) events; \([0-9,]*\) syncs .* \([0-9,]*\) registrations;.*/\1 \2 \3/p' "$1" | tr -d ,
}
matches_report() { # FILE DIR
	waylay report --json "$2" >report.json 2>err || fail "the report"
	have=$(figures "$1")
	want=$(python3 -c 'import json; r = json.load(open("report.json")); t = r["totals"]; print(t["events"], t["synchronizations"], r["registrations"]["count"])')
	[ "$have" = "$want" ] || fail "top said '$have', the report says '$want'"
}
started() { # DIR: until it holds a recording
	while [ -z "$(find "$1" -name '*.wspool' 2>/dev/null)" ]; do sleep 0.05; done
}

# --- a job under load, watched until it ends
# shellcheck disable=SC2046
waylay run -q --no-export --dir busy -- $(sampler naive 3000) >job.out 2>&1 &
job=$!
started busy
expect 0 waylay top --interval 100ms busy
cp out top.out
wait $job || fail "the job: $(cat job.out)"
[ "$(wc -l <top.out)" -ge 2 ] || fail "fewer than two looks"
says top.out "sampler.c:"
# When it ended it had seen all.
matches_report top.out busy
[ "$(waylay report --json busy | python3 -c 'import json, sys; r = json.load(sys.stdin); print({x["name"]: x["synchronizations"] for x in r["ranges"]}["sampler-naive"])')" = 6000 ] ||
	fail "the job's recording"
! LC_ALL=C grep -q '[[:cntrl:]]' top.out || fail "control characters where there is no terminal"

# --- by process id, and a job that is killed
# shellcheck disable=SC2046,SC2091
WAYLAY_DIR=$PWD/killed LD_PRELOAD=$build/libwaylay.so $(sampler naive 1000000) >job.out 2>&1 &
job=$!
started killed
rm -f top.out
waylay top --interval 100ms $job >top.out 2>top.err &
top=$!
while [ ! -s top.out ]; do
	kill -0 $top 2>/dev/null || fail "top ended: $(cat top.err)"
	sleep 0.05
done
kill -KILL $job
wait $job 2>/dev/null
wait $top || fail "top when the job was killed: $(cat top.err)"
expect 0 waylay top killed
matches_report out killed

# --- a job that has ended and that nobody has waited for is no running one
# shellcheck disable=SC2046
cat >unreaped.py <<'EOF2'
import os, subprocess, sys
environment = {**os.environ, "WAYLAY_DIR": "unreaped", "LD_PRELOAD": sys.argv[1]}
job = subprocess.Popen(sys.argv[2:], env=environment, stdout=subprocess.DEVNULL)
while os.waitid(os.P_PID, job.pid, os.WEXITED | os.WNOWAIT).si_pid != job.pid:
    pass
done = subprocess.run(["waylay", "top", "--interval", "50ms", str(job.pid)], capture_output=True, text=True, timeout=60)
assert done.returncode == 1, done
done = subprocess.run(["waylay", "top", "--interval", "50ms", "unreaped"], capture_output=True, text=True, timeout=60)
assert done.returncode == 0 and len(done.stdout.splitlines()) == 1, done
EOF2
# shellcheck disable=SC2046
python3 unreaped.py "$build/libwaylay.so" $(sampler naive 11) || fail "a job that was not waited for"

# --- a terminal of 80x24: a screen that fits, q ends it and the terminal is as before
command -v python3 >/dev/null || exit 0
cat >terminal.py <<'EOF2'
import fcntl, os, pty, re, select, struct, sys, termios, time
pid, fd = pty.fork()
if pid == 0:
    time.sleep(0.2)
    os.execvp("waylay", ["waylay", "top", "--interval", "200ms", sys.argv[1]])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
before, text, deadline, asked = termios.tcgetattr(fd), b"", time.time() + 30, False
while time.time() < deadline:
    ready, _, _ = select.select([fd], [], [], 0.1)
    try:
        data = os.read(fd, 65536) if ready else b""
    except OSError:
        break
    text += data
    if not asked and b"q: end" in text:
        os.write(fd, b"q")
        asked = True
_, status = os.waitpid(pid, 0)
assert asked and status == 0, (asked, status, text[-2000:])
text = text.decode()
assert text.startswith("\033[?1049h") and "\033[?1049l" in text, "the screen before is not given back"
frame = text.split("\033[H")[1].split("\033[J")[0]
lines = [re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", line).rstrip("\r") for line in frame.split("\n")]
assert len(lines) == 24 and max(map(len, lines)) <= 80, (len(lines), max(map(len, lines)))
assert any("synchronizations" in line for line in lines) and any("sampler.c:" in line for line in lines), lines
print("\n".join(lines))
EOF2
# shellcheck disable=SC2046,SC2091
WAYLAY_DIR=$PWD/screen LD_PRELOAD=$build/libwaylay.so $(sampler naive 1000000) >job.out 2>&1 &
job=$!
started screen
python3 terminal.py screen >out 2>err
looked=$?
kill $job
wait $job 2>/dev/null
[ $looked = 0 ] || fail "on a terminal"
