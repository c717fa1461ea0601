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
cat >terminal.py <<'EOF2'
import fcntl, os, pty, re, select, signal, struct, sys, termios, time


class Terminal:
    """top on a terminal of so many lines and columns."""
    def __init__(self, directory, lines, columns, kind="xterm"):
        self.text = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.pop("TERM", None)
            if kind:
                os.environ["TERM"] = kind
            time.sleep(0.2)
            os.execvp("waylay", ["waylay", "top", "--interval", "100ms", directory])
        self.resize(lines, columns)
        self.before = termios.tcgetattr(self.fd)

    def resize(self, lines, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def until(self, what, seconds=60):
        deadline = time.time() + seconds
        while not what(self.text):
            assert time.time() < deadline, self.text[-2000:]
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.fd, 65536)
                except OSError:
                    assert what(self.text), self.text[-2000:]
        return self.text.decode()

    def frames(self):
        whole = self.text.decode(errors="ignore").split("\033[H")[1:]
        return [frame.split("\033[J")[0] for frame in whole if "\033[J" in frame]


def plain(frame):
    return [re.sub(r"\033\[[0-9;?]*[A-Za-z]", "", line).rstrip("\r") for line in frame.split("\n")]


def fits(frame, lines, columns):
    shown = plain(frame)
    return len(shown) == lines and max(map(len, shown)) <= columns


top = Terminal(sys.argv[1], 24, 80)
top.until(lambda text: b"q: end" in text and b"\033[J" in text)
assert fits(top.frames()[0], 24, 80), top.frames()[0]
lines = plain(top.frames()[0])
assert any("synchronizations" in line for line in lines) and any("sampler.c:" in line for line in lines), lines
print("\n".join(lines))
# Smaller, and smaller still: each time the next frame fits.
for lines, columns in (10, 40), (3, 12), (50, 200):
    top.resize(lines, columns)
    top.until(lambda text: fits(top.frames()[-1], lines, columns))
# ^Z gives the terminal back, and it is taken again afterwards.
seen = len(top.text)
os.write(top.fd, b"\x1a")
os.waitpid(top.pid, os.WUNTRACED)
top.until(lambda text: b"\033[?1049l" in text[seen:])
assert termios.tcgetattr(top.fd)[3] == top.before[3], "no echo while it is stopped"
os.kill(top.pid, signal.SIGCONT)
top.until(lambda text: b"\033[?1049h" in text[seen:])
os.write(top.fd, b"q")
_, status = os.waitpid(top.pid, 0)
assert status == 0, status
assert termios.tcgetattr(top.fd)[3] == top.before[3], "the terminal is not as it was"
# Terminals that may know no escape sequences get lines.
for kind in "dumb", "":
    top = Terminal(sys.argv[1], 24, 80, kind)
    top.until(lambda text: text.count(b"\n") >= 2)
    os.kill(top.pid, signal.SIGINT)
    _, status = os.waitpid(top.pid, 0)
    assert status == 0 and b"\033" not in top.text, (status, top.text)
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
