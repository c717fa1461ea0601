#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `waylay view`: gives the trace to a page of the UI's origin alone, once, over the loopback, ends itself
# and leaves nothing behind.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs
unset DISPLAY WAYLAND_DISPLAY BROWSER SSH_CONNECTION

one_line 64 "is no address" waylay view --ui perfetto x
one_line 64 "is no port" waylay view --port 70000 x
one_line 64 "is no time" waylay view --wait soon x
# shellcheck disable=SC2046
expect 0 waylay run -q --no-export --dir rec -- $(sampler naive 7)
if ! waylay view --port 0 --wait 1ms rec >out 2>err && grep -q "without libmicrohttpd" err; then
	echo "built without libmicrohttpd"
	exit 77
fi
says err "no browser came for the trace"
mkdir tmp
expect 1 env TMPDIR="$PWD/nowhere" waylay view --port 0 --wait 1ms rec
says err "set TMPDIR"

start() { # ARGUMENTS...: in the background, until the link is there
	: >"link"
	TMPDIR=$PWD/tmp waylay view --port 0 --no-open --verbose --wait 60s "$@" >"link" 2>log &
	pid=$!
	while [ ! -s link ]; do
		kill -0 $pid 2>/dev/null || fail "no link: $(cat log)"
		sleep 0.05
	done
}

# --- a recording is exported first, and what was made is gone afterwards
start rec
[ "$(find tmp -name '*.pftrace' | wc -l)" = 1 ] || fail "no trace made"
[ "$(stat -c %a tmp/waylay-view-*)" = 700 ] || fail "others see the trace"
cp tmp/waylay-view-*/waylay.pftrace copy.pftrace
PYTHONDONTWRITEBYTECODE=1 python3 "$WAYLAY_SOURCE/tests/cli/view.py" "$(cat link)" copy.pftrace || fail "the server"
wait $pid || fail "status $? after the fetch"
[ -z "$(ls tmp)" ] || fail "left behind: $(ls tmp)"
says log "open this in a browser on this machine:"
says log "204 OPTIONS"
says log "may ask whether the page may access other apps and services on this device"
says log "from https://ui.perfetto.dev"
[ "$(grep -c 'waylay: 200 GET' log)" = 1 ] || fail "given more than once"
port=$(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' link)
! python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 2)" 2>/dev/null || fail "it still listens"

# --- ended by a signal: nothing is left either
start rec
kill -INT $pid
wait $pid
[ $? = 130 ] || fail "not ended by SIGINT"
[ -z "$(ls tmp)" ] || fail "left behind after a signal"

# --- a trace as it is; a port that is taken; by ssh
start copy.pftrace
case $(cat link) in *copy.pftrace*) ;; *) fail "the trace's name" ;; esac
port=$(sed -n 's/.*127\.0\.0\.1:\([0-9]*\).*/\1/p' link)
one_line 1 "Address already in use; end what uses it" waylay view --port "$port" --no-open copy.pftrace
kill $pid
wait $pid
expect 1 env SSH_CONNECTION="1 2 3 4" DISPLAY=:0 waylay view --port 0 --wait 1ms copy.pftrace
says err "no browser to start here"
says err "ssh -N -L"
[ -z "$(ls tmp)" ] || fail "left behind"
# A browser is started with the link.
cat >browser <<'EOF2'
#!/bin/sh
echo "$1" >"$0.asked"
EOF2
chmod +x browser
expect 1 env BROWSER="$PWD/browser" waylay view --port 0 --wait 2s copy.pftrace
grep -qF "$(cat out)" browser.asked || fail "the browser was not given the link"

# --- a trace that no browser holds: what does; trace_processor's server, ended with the command
printf '\n' >large.pftrace
truncate -s 2G large.pftrace
expect 1 env -u TRACE_PROCESSOR PATH="$build:/nowhere" waylay view --port 0 --no-open --wait 1ms large.pftrace
says err "large.pftrace is 2.00 GiB, which browsers do not hold; with trace_processor_shell"
expect 1 env -u TRACE_PROCESSOR PATH="$build:/nowhere" waylay view --server --port 0 copy.pftrace
says err "--server needs trace_processor_shell"
cat >trace_processor_shell <<'EOF2'
#!/bin/sh
echo "$*" >"$0.asked"
exec sleep 60
EOF2
chmod +x trace_processor_shell
expect 1 env -u TRACE_PROCESSOR PATH="$PWD:$PATH" waylay view --port 0 --no-open --wait 1ms large.pftrace
says err "run it with --server"
rm large.pftrace
: >"link"
rm -f trace_processor_shell.asked
TMPDIR=$PWD/tmp TRACE_PROCESSOR=$PWD/trace_processor_shell waylay view --server --no-open rec >"link" 2>log &
pid=$!
while [ ! -s link ] || [ ! -s trace_processor_shell.asked ]; do
	kill -0 $pid 2>/dev/null || fail "--server: $(cat log)"
	sleep 0.05
done
grep -q -- '--httpd --http-port 9001 --http-ip-address 127.0.0.1 .*https://ui.perfetto.dev .*/waylay.pftrace$' trace_processor_shell.asked ||
	fail "--server: $(cat trace_processor_shell.asked)"
case $(cat link) in https://ui.perfetto.dev/#!/?referrer=waylay\&startupCommands=*) ;; *) fail "the link: $(cat link)" ;; esac
child=$(ps -o pid= --ppid $pid | tr -d ' ')
kill -TERM $pid
wait $pid
[ $? = 143 ] || fail "--server: not ended by SIGTERM"
! kill -0 "$child" 2>/dev/null || fail "--server: trace_processor goes on"
[ -z "$(ls tmp)" ] || fail "--server: left behind $(ls tmp)"
processor=${WAYLAY_TEST_TRACE_PROCESSOR:-${TRACE_PROCESSOR:-}}
if [ -x "$processor" ]; then
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	TRACE_PROCESSOR=$processor waylay view --server --no-open --port "$port" copy.pftrace >"link" 2>log &
	pid=$!
	python3 - "$port" <<'EOF2' || fail "trace_processor's server: $(cat log)"
import http.client, sys, time
deadline = time.time() + 30
while True:
    try:
        connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=5)
        connection.request("POST", "/status", headers={"Origin": "https://ui.perfetto.dev"})
        answer = connection.getresponse()
        assert answer.status == 200 and answer.getheader("Access-Control-Allow-Origin") == "https://ui.perfetto.dev", answer.getheaders()
        assert b"copy.pftrace" in answer.read()
        break
    except ConnectionRefusedError:
        assert time.time() < deadline
        time.sleep(0.1)
EOF2
	kill $pid
	wait $pid
	[ $? = 143 ] || fail "trace_processor's server: not ended"
fi
