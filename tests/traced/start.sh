#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A process that meets neither CUDA nor libfabric: no file, no thread, no word, next to no time; bad
# settings are one line and a job that runs on; a privileged program is left alone.
set -eu
build=$WAYLAY_BUILD/tests
# shellcheck source=tests/traced/preload.inc
. "$(dirname "$0")/preload.inc"
lib=$WAYLAY_BUILD/libwaylay.so
unset WAYLAY_BUILD
[ -z "$runtime" ] || { echo "built with a sanitizer, which has a cost and words of its own" && exit 77; }
fail() {
	echo "FAIL: $*"
	exit 1
}

# --- nothing is left behind, nothing is said
WAYLAY_DIR=$PWD/out LD_PRELOAD=$preload sh -c 'echo hello; ls -d /proc/self/task/* | wc -l' >said 2>errors
[ "$(cat said)" = "hello
1" ] || fail "a shell said: $(cat said)"
[ ! -s errors ] || fail "a shell's errors: $(cat errors)"
[ ! -e out ] || fail "a shell left a recording: $(ls out)"
# Shells with functions of their own for the environment see nothing odd either.
for shell in bash dash; do
	command -v $shell >/dev/null || continue
	[ "$(LD_PRELOAD=$preload $shell -c 'FOO=bar; export FOO; env | grep ^FOO=')" = FOO=bar ] || fail "$shell's environment"
done

# --- settings that cannot be used
complains() { # WORDS NAME=VALUE
	env "$2" LD_PRELOAD="$preload" /bin/echo on >said 2>errors || fail "$2: status $?"
	[ "$(cat said)" = on ] || fail "$2: the job said $(cat said)"
	[ "$(wc -l <errors)" = 1 ] || fail "$2: said more or less than a line: $(cat errors)"
	grep -q "$1" errors || fail "$2: said '$(cat errors)', not '$1'"
}
complains 'no such setting (nearest: WAYLAY_DIR)' WAYLAY_DIRECTORY=x
complains '1 or 0' WAYLAY_CUDA=maybe
complains 'K, M or G' WAYLAY_MAX_BYTES=12Q
complains 'K, M or G' WAYLAY_MAX_BYTES=99999999999999999999
complains 'K, M or G' WAYLAY_MAX_BYTES=-1
complains 'auto, tsc or monotonic' WAYLAY_CLOCK=sundial
complains 'none, sync or all' WAYLAY_STACK=some
complains '1 to 128' WAYLAY_STACK_DEPTH=0
complains '1 to 128' WAYLAY_STACK_DEPTH=3x
complains 'path of a directory' WAYLAY_DIR=
# Good ones are silent, whatever their spelling.
WAYLAY=on WAYLAY_MAX_BYTES=512mib WAYLAY_STACK=ALL WAYLAY_THREAD=no WAYLAY_CLOCK=auto LD_PRELOAD=$preload \
	/bin/true 2>errors
[ ! -s errors ] || fail "good settings: $(cat errors)"
WAYLAY=0 WAYLAY_STACK_DEPTH=128 LD_PRELOAD=$preload /bin/true 2>errors
[ ! -s errors ] || fail "switched off: $(cat errors)"

# --- what it costs; LTTng is not opened before the first object, so that asking for it costs no more
cost() { # RUNS [NAME=VALUE]
	runs=$1
	shift
	# shellcheck disable=SC2046 # words are wanted
	set -- $("$build/exec_cost" "$lib" "$runs" /bin/true "$@") "$@"
	echo "/bin/true in us: plain min $2 median $3, preloaded min $5 median $6 ${7:-}"
	# The least of each: what the machine does beside this is no business of ours.
	[ $(($5 - $2)) -lt 1000 ] || fail "the preload adds $(($5 - $2)) us to a program that does nothing"
}
cost "${WAYLAY_TEST_EXECS:-1000}"
cost 211 WAYLAY_SINK=lttng
