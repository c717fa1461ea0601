#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# libwaylay.so exports what it interposes and its other doors, nothing else; fi_* names alone carry
# versions. A `local:` line in the version script would silently take dlsym and cu* away.
set -eu
lib=$WAYLAY_BUILD/libwaylay.so
fail() {
	echo "FAIL: $*"
	exit 1
}
nm -D --defined-only "$lib" | awk '{ print $NF }' >all
for name in dlsym dlvsym InitializeInjectionNvtx2 InitializeInjectionNvtx2Preinject cuInit \
	cuGetProcAddress_v2 cuStreamSynchronize cuStreamSynchronize_ptsz cuMemcpyDtoH_v2 cuLaunchKernel; do
	grep -qx "$name" all || fail "$name is not exported"
done
if grep -q '^fi_' all; then # built with libfabric
	for name in fi_fabric@FABRIC_1.0 fi_fabric@@FABRIC_1.1; do
		grep -qx "$name" all || fail "$name is not exported"
	done
	grep -qx fi_prov_ini all || fail "the door for hook providers is not exported"
	grep '^fi_' all | grep -v -e '@' -e '^fi_prov_ini$' && fail "a libfabric name without a version"
fi
# Doors: NVTX, CUDA injection, libfabric's hook providers, CUPTI's activity calls; the job's own switch.
grep -v -e '^dlv\{0,1\}sym$' -e '^cu[A-Z]' -e '^fi_[a-z0-9_]*@@*FABRIC_1\.[0-9]*$' -e '^FABRIC_1\.[0-9]*$' \
	-e '^InitializeInjection[A-Za-z0-9]*$' -e '^cuptiActivity[A-Za-z0-9_]*$' -e '^cuptiFinalize$' -e '^fi_prov_ini@*' -e '^waylay_record$' all &&
	fail "exported, but by no plan"
# A wrapper of a driver entry must be one that this build knows the signature of.
[ "$(grep -c '^cu[A-Z]' all)" -gt 100 ] || fail "only $(grep -c '^cu[A-Z]' all) driver entries"
# Nothing that a second copy or a late load would trip over.
readelf -d "$lib" | grep -q NODELETE || fail "the library could be unloaded"
readelf -d "$lib" | grep -q TEXTREL && fail "text relocations"
tls=$(readelf -lW "$lib" | awk '$1 == "TLS" { print $6 }')
[ $((${tls:-0})) -le 512 ] || fail "$((tls)) bytes of thread-local data: a late load may find no room"
# Copies in the recording are not a race detector's to judge: it does not see what orders them.
nm -D --undefined-only "$lib" >wanted
grep -q -e '__asan_init' -e '__tsan_init' wanted || ! grep -E ' mem(cpy|move|set|cmp)(@|$)' wanted ||
	fail "memory functions of the job's libraries are used"
echo "$(wc -l <all) names exported"
