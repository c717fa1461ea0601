#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# waylay ctl on running jobs, and the windows that are decided inside the job: what is recorded is exactly
# what was done while recording was on.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs
job=$build/tests/control_job
dump=$build/tests/spool_dump
lib=$build/libwaylay.so
source=$WAYLAY_SOURCE
unset WAYLAY_BUILD WAYLAY_SOURCE

mkfifo to from
begin() { # VARIABLE=VALUE...: starts the job; tell speaks with it
	rm -rf rec
	env WAYLAY_DIR="$PWD/rec" "$@" LD_PRELOAD="$lib" "$job" <to >from 2>job_err &
	started=$!
	exec 3>to 4<from
	tell pid
	pid=${answer#pid }
}
tell() { # COMMAND: sets answer
	echo "$*" >&3
	read -r answer <&4 || fail "the job has gone: $(cat job_err)"
}
finish() { # the job's end; it must have been silent and well
	exec 3>&-
	wait "$started" || fail "the job's status: $?"
	exec 4<&-
	[ ! -s job_err ] || fail "the job said $(cat job_err)"
}
waits() { # recorded synchronizations of the process itself, or of FILE
	for file in "${@:-rec/*."$pid".*.wspool}"; do
		# shellcheck disable=SC2086 # a pattern
		"$dump" $file | grep -c '^event .*cuda_wait .*cuStreamSynchronize'
	done
}
recorded() { # COUNT WHY
	[ "$(waits)" = "$1" ] || fail "$2: $(waits) waits recorded, not $1"
}

# --- start, stop, status
for thread in 1 0; do
	begin WAYLAY_THREAD=$thread
	tell steps 5
	if [ $thread = 1 ]; then
		expect 0 waylay ctl stop "$pid"
		[ ! -s out ] || fail "words of ctl stop"
		[ ! -s err ] || fail "words of ctl stop"
		expect 0 waylay ctl status "$pid"
		says out "$pid (control_job): stopped, "
	else
		# Threads that record are heard at their next look, within a second.
		waylay ctl stop --wait 10s "$pid" 2>err &
		asking=$!
		before=0
		while kill -0 $asking 2>/dev/null; do
			tell steps 1
			before=$((before + 3))
		done
		wait $asking || fail "ctl stop without a thread"
	fi
	kept=$(waits)
	[ "$kept" -ge 15 ] || fail "before the stop: $kept"
	tell steps 7
	recorded "$kept" "while stopped"
	if [ $thread = 1 ]; then
		expect 0 waylay ctl start "$pid"
	else
		waylay ctl start --wait 10s "$pid" 2>err &
		asking=$!
		while kill -0 $asking 2>/dev/null; do tell steps 1; done
		wait $asking || fail "ctl start without a thread"
		kept=$(waits)
	fi
	expect 0 waylay ctl status rec
	says out "$pid (control_job): recording, "
	tell steps 3
	recorded $((kept + 9)) "started again"
	finish
	# No loss is spoken of: nothing was to be recorded. Both switches are in the recording.
	"$dump" rec/*.wspool >text
	! grep -q '^drops' text || fail "drops: $(grep ^drops text)"
	grep -q '^attribute recording.1 off [0-9]*$' text || fail "the stop is not in the recording"
	grep -q '^attribute recording.2 on [0-9]*$' text || fail "the start is not in the recording"
done
expect 0 waylay ctl status rec
says out "(control_job): ended, "
one_line 1 "no process that records is running any more" waylay ctl stop rec

# --- the job itself
begin
tell record 0
[ "$answer" = record ] || fail "no waylay_record in the job: $answer"
tell steps 2
tell record 1
tell steps 1
finish
recorded 3 "the job's own switch"
[ "$(printf 'record 1\n' | "$job")" = alone ] || fail "waylay_record without Waylay"

# --- set
begin
tell steps 1
expect 0 waylay ctl set stack=none "$pid"
tell steps 1
one_line 1 "WAYLAY_MAX_BYTES cannot be changed in a running process" waylay ctl set max-bytes=2M "$pid"
expect 0 waylay ctl set WAYLAY_STACK=sync rec
tell steps 1
finish
with=$("$dump" rec/*.wspool | grep 'cuda_wait .*cuStreamSync' | grep -c 'stack=yes')
[ "$with" = 6 ] || fail "$with waits with a stack, not 6"

# --- a process that hangs is seen, and copied without its help
begin
tell steps 11
tell hang 60000
waylay ctl stop "$pid" || fail "a hanging job is not heard"
expect 0 env WAYLAY_DIR=rec waylay ctl status
one_line 1 "opening waylay-out: No such file" waylay ctl status waylay-out
expect 0 waylay ctl status "$pid"
says out "in cuStreamSynchronize for "
kill -STOP "$pid"
expect 0 waylay ctl snapshot "$pid"
snapshot=$(cat out)
[ "$(waits "$snapshot")" = 33 ] || fail "the copy has $(waits "$snapshot") waits, not 33"
"$dump" "$snapshot" | grep -q '^inflight .* cuda_wait cuStreamSynchronize' || fail "the copy does not say where it hangs"
one_line 1 "does not answer" waylay ctl start --wait 300ms "$pid"
kill -KILL "$pid"
wait 2>/dev/null
exec 3>&- 4<&-
expect 0 waylay ctl status rec
says out "(control_job): killed, "

# --- windows
begin WAYLAY_ONLY_RANGE=step
tell steps 2
finish
recorded 6 "only-range"
begin WAYLAY_ONLY_RANGE=inner
tell steps 2
tell start 5
finish
recorded 6 "a range within"
! "$dump" rec/*.wspool | grep -q 'nvtx_push.* text=step' || fail "what is outside the range is recorded"
begin WAYLAY_ONLY_STEPS=3:5
tell steps 2
tell start 5
tell steps 2
finish
recorded 6 "steps"
[ "$("$dump" rec/*.wspool | grep -c nvtx_start)" = 2 ] || fail "instances 3 and 4 are not those recorded"
for thread in 1 0; do
	begin WAYLAY_DELAY=10m WAYLAY_THREAD=$thread
	tell steps 2
	recorded 0 "before the delay was over"
	finish
done
begin WAYLAY_DELAY=10m
tell steps 2
expect 0 waylay ctl status "$pid"
says out "delayed, "
expect 0 waylay ctl start "$pid"
tell steps 2
finish
recorded 6 "a start before the delay was over"
begin WAYLAY_DURATION=1ms
tries=0
until waylay ctl status "$pid" | grep -q ': over, '; do
	tries=$((tries + 1))
	[ $tries -lt 200 ] || fail "the duration does not end"
done
tell steps 2
finish
recorded 0 "after the duration"

# --- copies by themselves
appears() { # PATTERN
	tries=0
	until [ -n "$(find rec -path "*/$1/*.wspool")" ]; do
		tries=$((tries + 1))
		[ $tries -lt 500 ] || fail "no $1: $(ls rec)"
		tell steps 1
	done
}
begin WAYLAY_TRIGGER='held > 100ms' WAYLAY_FLIGHT_RECORDER=1 WAYLAY_MAX_BYTES=1M
tell steps 101
[ -z "$(ls -d rec/snapshot* 2>/dev/null)" ] || fail "a copy without a reason"
tell slow 400
appears 'snapshot-1-held'
"$dump" rec/snapshot-1-held/*.wspool >text || fail "the copy cannot be read"
grep -q '^inflight .* cuda_wait cuStreamSynchronize' text || fail "the copy was not made while the call held the host"
finish
[ "$(find rec -name "snapshot*" | wc -l)" = 1 ] || fail "more than a copy of one wait: $(ls rec)"
begin WAYLAY_TRIGGER='nosuch > 1ns, step > 150ms'
tell steps 11
tell slow 20
tell slow 300
appears 'snapshot-1-range'
finish
[ "$(find rec -name "snapshot*" | wc -l)" = 1 ] || fail "more than a copy of one step: $(ls rec)"
[ "$(waits "$(echo rec/snapshot-1-range/*.wspool)")" -ge 35 ] || fail "the copy lacks the slow step"

# --- mistakes
one_line 64 "no word of what to do" waylay ctl
one_line 64 "'frob' is none of status, start, stop, snapshot, set" waylay ctl frob
one_line 64 "no SETTING=VALUE given" waylay ctl set
one_line 64 "'nosuch=1' is no SETTING=VALUE" waylay ctl set nosuch=1
one_line 64 "not understood" waylay ctl set stack=some
one_line 64 "is no time such as" waylay ctl stop --wait soon
one_line 1 "there is no such process" waylay ctl stop 4194303
one_line 1 "records nothing" waylay ctl stop $$
one_line 1 "no recording of Waylay's" waylay ctl status "$source/README.md"
mkdir empty
one_line 1 "no process that records was found" waylay ctl stop empty
