#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What a hooked call costs on a real driver, beside what CUPTI's activity adds to it: calls of the driver
# (bench_cuda), and calls of the runtime as programs make them, each variant in processes of its own, in turn.
. "$WAYLAY_SOURCE/tests/gpu/lib/gpu.sh"
bench=$WAYLAY_BUILD/bench/bench_cuda
[ -x "$bench" ] || {
	echo "needs bench_cuda (make bench)"
	exit 77
}
${CC:-cc} -shared -fPIC -O1 -o cupti_bare.so "$WAYLAY_SOURCE/tests/gpu/cupti_bare.c" -ldl
CUPTI_BARE_CALLS=1 WAYLAY_TEST_DRIVER=libcuda.so.1 WAYLAY_TEST_CUPTI=$PWD/cupti_bare.so "$bench" "$WAYLAY_BUILD"

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
[ -x "$nvcc" ] || exit 0
"$nvcc" -O2 -std=c++17 -cudart static -arch=native -o runtime_cost "$WAYLAY_SOURCE/tests/gpu/runtime_cost.cu"
traced() {
	rm -rf rec
	env WAYLAY_DIR="$PWD/rec" LD_PRELOAD="$WAYLAY_BUILD/libwaylay.so" "$@" ./runtime_cost
}
bare=$PWD/cupti_bare.so
for _ in 1 2 3; do
	./runtime_cost | sed 's/^/bare|/'
	traced WAYLAY_STACK=none | sed 's/^/hooked|/'
	traced WAYLAY_STACK=sync | sed 's/^/stacks|/'
	CUDA_INJECTION64_PATH=$bare ./runtime_cost | sed 's/^/CUPTI activity|/'
	CUPTI_BARE_CALLS=1 CUDA_INJECTION64_PATH=$bare ./runtime_cost | sed 's/^/CUPTI with calls|/'
	traced WAYLAY_STACK=none WAYLAY_GPU=cupti | sed 's/^/hooked, --gpu cupti|/'
done >costs
python3 - <<'PY'
least, names = {}, []
for line in open("costs"):
    variant, name, ns = line.strip().split("|")
    least[variant, name] = min(float(ns), least.get((variant, name), 1e9))
    if name not in names:
        names.append(name)
others = ["hooked", "stacks", "CUPTI activity", "CUPTI with calls", "hooked, --gpu cupti"]
print("calls of the runtime: ns, the least of 3 medians; the other columns are what is added")
print(f"{'':34}{'bare':>10}" + "".join(f"{o:>20}" for o in others) + f"{'hooked/CUPTI':>14}")
for name in names:
    bare = least["bare", name]
    added = [least[o, name] - bare for o in others]
    print(f"{name:34}{bare:10.1f}" + "".join(f"{a:+20.1f}" for a in added) + f"{added[0] / added[3]:14.2f}")
PY
