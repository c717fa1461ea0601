# SPDX-License-Identifier: Apache-2.0
# The wrappers themselves are part of libwaylay.so (tracer/inject/module.mk).
ifeq ($(HAVE_CMOCKA),1)
UNIT_TESTS += test_cuda_rules
test_cuda_rules_SRCS := tests/unit/test_cuda_rules.c $(wildcard tracer/inject/cuda/*.c) tracer/events/events.c
test_cuda_rules_LDLIBS := $(call pkg_libs,cmocka)
endif
BENCHES += bench_cuda
bench_cuda_SRCS := tests/bench/bench_cuda.c
