#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Two network namespaces as two hosts, joined by a virtual cable, each with a /dev/shm of its own: ranks
# meet, choose a provider for networks by themselves, and every collective is right over each.
set -eu

perf=$WAYLAY_BUILD/waylay-coll-perf
if [ ! -x "$perf" ]; then
	echo "no waylay-coll-perf in this build (it needs libfabric's headers: libfabric-dev)"
	exit 77
fi
a=wlc$$a b=wlc$$b
clean() {
	ip netns del $a 2>/dev/null || :
	ip netns del $b 2>/dev/null || :
}
if ! command -v ip >/dev/null || ! ip netns add $a 2>/dev/null; then
	echo "no network namespaces here (they need iproute2 and root)"
	exit 77
fi
trap clean EXIT
ip netns add $b
ip link add v$$a netns $a type veth peer name v$$b netns $b 2>/dev/null || {
	echo "no virtual cables (veth) here"
	exit 77
}
ip -n $a addr add 10.213.7.1/24 dev v$$a
ip -n $b addr add 10.213.7.2/24 dev v$$b
for ns in $a $b; do ip -n "$ns" link set lo up; done
ip -n $a link set v$$a up
ip -n $b link set v$$b up

die() {
	echo "FAILED: $*"
	for f in out err out1 err1; do [ ! -f $f ] || sed "s/^/  $f: /" $f | tail -n 5; done
	exit 1
}
rank() { # NAMESPACE RANK ARGUMENT...
	ns=$1 rank=$2
	shift 2
	RANK=$rank WORLD_SIZE=2 MASTER_ADDR=10.213.7.1 MASTER_PORT=29611 LOCAL_RANK=0 ip netns exec "$ns" \
		unshare --mount sh -c 'mount -t tmpfs none /dev/shm && exec timeout 100 "$@"' sh "$perf" "$@"
}
both() { # ARGUMENT...
	rank $b 1 --timeout 60 "$@" >out1 2>err1 &
	other=$!
	rank $a 0 --timeout 60 "$@" >out 2>err || die "rank 0: status $? with $*"
	wait $other || die "rank 1: status $? with $*"
	grep -q '"wrong":0,"avg' out || die "wrong values with $*"
	grep -q '"one_host":false' out || die "the two are taken for one host with $*"
	echo "$(grep -c '"collective"' out) results right over $(sed -n 's/.*"provider":"\([^"]*\)".*/\1/p' out)"
}
both -b 1000 -e 300000 -i 149500 -n 1 -w 1 --format json all
for provider in 'tcp;ofi_rxm' tcp sockets 'udp;ofi_rxd'; do
	"$perf" --list-providers | grep -qxF "$provider" || continue
	both -b 1000 -e 120000 -i 59500 -n 1 -w 1 --format json --provider "$provider" all
done
echo ok
