#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The gate on real jobs: a sampler that waits twice a call, one that does not wait.
set -u
# shellcheck source=tests/cli/lib/cli.inc
. "$(dirname "$0")/lib/cli.inc"
need_jobs

# shellcheck disable=SC2046
{
	expect 0 waylay run -q --no-export --dir naive -- $(sampler naive 7)
	expect 0 waylay run -q --no-export --dir fused -- $(sampler fused 7)
}
verdict() { # STATUS WORDS DIR OPTIONS...
	wanted=$1 words=$2 dir=$3
	shift 3
	expect "$wanted" waylay check "$@" "$dir"
	says out "$words"
	[ ! -s err ] || fail "words on standard error"
}
in="--range sampler-naive"
# shellcheck disable=SC2086
{
	verdict 1 "EXCEEDED: 2 synchronizations in the worst instance of 'sampler-naive', allowed 0" naive $in --max-syncs 0
	says out "14 in all instances"
	says out "sampler.c:"
	says out "stream_wait"
	verdict 1 "allowed 1" naive $in --max-syncs 1
	verdict 0 "holds: 2 synchronizations" naive $in --max-syncs 2
	verdict 0 "holds: 14 synchronizations in all 7 instances" naive $in --max-syncs 14 --total
	verdict 1 "EXCEEDED: 14" naive $in --max-syncs 13 --total
	verdict 0 "holds: 8 synchronizations in all 4 instances" naive $in --max-syncs 8 --total --skip 3
	verdict 1 "EXCEEDED: 2" naive $in --max-syncs 0 --skip 6
	verdict 2 "CANNOT TELL: every instance of 'sampler-naive' was skipped" naive $in --max-syncs 9 --skip 7
	verdict 1 "EXCEEDED: 2" naive $in --max-syncs 0 --same-thread
	verdict 0 "holds: 0 staged copies" naive $in --max-staged 0
	verdict 1 "2 calls by stream_wait" naive $in --max-rule stream_wait=1
	verdict 0 "holds: 0 calls by context_wait" naive $in --max-rule context_wait=0
	verdict 0 "holds: 0 synchronizations" naive $in --max-syncs 0 --allow '*.c:*'
	verdict 1 "held by synchronizations" naive $in --max-held 1ns
	verdict 0 "held by synchronizations" naive $in --max-held 1000s
	# Several budgets: all are told, one that is exceeded is enough.
	verdict 1 "holds: 0 staged copies" naive $in --max-syncs 0 --max-staged 0
}
verdict 2 "CANNOT TELL: there is no range 'sampler-naive'" fused --range sampler-naive --max-syncs 9
verdict 0 "holds: 0 synchronizations in the worst instance of 'sampler-fused'" fused --range sampler-fused --max-syncs 0
verdict 0 "in the whole run" naive --max-syncs 99999
verdict 1 "in the whole run" naive --max-syncs 3

# The same in one go; the report is on standard error, the job's output alone on standard output.
# shellcheck disable=SC2046
{
	expect 1 waylay run --no-export --range sampler-naive --max-syncs 0 -- $(sampler naive 3)
	says err "EXCEEDED: 2 synchronizations"
	expect 0 waylay run --no-export --range sampler-fused --max-syncs 0 -- $(sampler fused 3)
	says err "holds: 0 synchronizations"
	expect 2 waylay run -q --no-export --range nowhere --max-syncs 0 -- $(sampler fused 3)
	says err "CANNOT TELL: there is no range 'nowhere'"
	expect 2 waylay run -q --no-export --max-syncs 0 -- true
	says err "CANNOT TELL: nothing was recorded"
	# What was not recorded does not hold.
	expect 2 waylay run -q --no-export --no-cuda --range sampler-fused --max-syncs 0 -- $(sampler fused 3)
	says err "CANNOT TELL"
	expect 2 waylay run -q --no-export --no-nvtx --range sampler-fused --max-syncs 0 -- $(sampler fused 3)
	says err "CANNOT TELL: there is no range 'sampler-fused'"
	# A recording that reached its cap.
	expect 2 waylay run -q --no-export --max-bytes 1M --max-syncs 99999999 -- $(sampler naive 20000)
	says err "records were lost"
	expect 2 waylay run -q --no-export --max-bytes 1M --flight-recorder --max-syncs 99999999 -- $(sampler naive 20000)
	says err "the flight recorder overwrote"
}

# The verdict stands where its words cannot be written, and where nobody reads them.
waylay check --max-syncs 3 naive >/dev/full 2>err
[ $? = 1 ] || fail "the verdict on a full device"
says err "writing the verdict to standard output: No space left on device"
