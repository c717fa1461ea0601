#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# An all-reduce of two ranks, in network namespaces of their own where that is allowed, else over the
# loopback; one rank's recording is then read with its clock set apart and drifting, and the two are aligned
# by their messages.
set -eu

build=$WAYLAY_BUILD
if [ ! -x "$build/waylay-coll-perf" ]; then
	echo "no collectives in this build"
	exit 77
fi
if ldd "$build/libwaylay.so" | grep -q 'lib[at]san'; then
	echo "built with a sanitizer, whose runtime every traced program would have to load first"
	exit 77
fi
export PATH="$build:$PATH"
job="waylay-coll-perf --provider tcp --minbytes 1K --maxbytes 16K --stepfactor 4 --iters 101 all_reduce"
a=waylay-$$a b=waylay-$$b
clean() {
	ip netns delete "$a" 2>/dev/null || true
	ip netns delete "$b" 2>/dev/null || true
}
where=loopback
if command -v ip >/dev/null && ip netns add "$a" 2>/dev/null; then
	trap clean EXIT
	if ip netns add "$b" && ip link add va$$ netns "$a" type veth peer name vb$$ netns "$b" &&
		ip -n "$a" address add 10.77.0.1/24 dev va$$ && ip -n "$b" address add 10.77.0.2/24 dev vb$$ &&
		ip -n "$a" link set va$$ up && ip -n "$b" link set vb$$ up && ip -n "$a" link set lo up &&
		ip -n "$b" link set lo up; then
		where="network namespaces"
	fi 2>err
fi
if [ "$where" = loopback ]; then
	# shellcheck disable=SC2086 # words
	waylay run -q --no-export --dir rec -- $job --np 2 >out 2>err || {
		cat err
		exit 1
	}
else
	for rank in 0 1; do
		[ $rank = 0 ] && space=$a || space=$b
		# shellcheck disable=SC2086
		RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=10.77.0.1 MASTER_PORT=29517 ip netns exec "$space" \
			waylay run -q --no-export --dir rec -- $job >out.$rank 2>err.$rank &
		eval pid$rank=$!
	done
	# shellcheck disable=SC2154
	if ! wait "$pid0" || ! wait "$pid1"; then
		cat err.*
		exit 1
	fi
fi
for rank in 0 1; do
	waylay export rec --rank $rank -f jsonl --table processes -o - 2>/dev/null |
		sed -n 's/.*"recording":"\([^"]*\)".*/\1/p' >file.$rank
	[ -s file.$rank ] || exit 1
done
for skew in "0 0 0" "5000 30 20" "-777 -250 -40" "123456 400 3"; do
	# shellcheck disable=SC2086
	"$build/tests/skewed" "$(cat file.0)" "$(cat file.1)" $skew >skewed.out || {
		cat skewed.out
		echo "skew $skew"
		exit 1
	}
	messages=$(sed -n 's/skewed: \([0-9]*\) messages.*/\1/p' skewed.out)
	[ "$messages" -gt 500 ] || {
		echo "only $messages messages known at both ends"
		exit 1
	}
	echo "over $where, skew $skew: $(cat skewed.out)"
done
