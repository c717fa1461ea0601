# SPDX-License-Identifier: Apache-2.0
# The wrappers themselves are part of libwaylay.so (tracer/inject/module.mk).
ifeq ($(HAVE_CMOCKA),1)
UNIT_TESTS += test_cuda_rules test_cuda_wrappers
test_cuda_rules_SRCS := tests/unit/test_cuda_rules.c tests/unit/cuda_stand_in.c $(wildcard tracer/inject/cuda/*.c) \
	tracer/events/events.c
test_cuda_rules_LDLIBS := $(call pkg_libs,cmocka)
test_cuda_wrappers_SRCS := $(subst test_cuda_rules,test_cuda_wrappers,$(test_cuda_rules_SRCS))
test_cuda_wrappers_LDLIBS := $(call pkg_libs,cmocka)
endif
BENCHES += bench_cuda
bench_cuda_SRCS := tests/bench/bench_cuda.c

# tests/traced/cuda_*.sh
FAKECUDA := $(O)/tests/fakecuda/libcuda.so.1
TEST_PROGRAMS += cuda_calls cuda_calls_dlsym cuda_calls_lookup cuda_no_driver
cuda_calls_SRCS := tests/traced/cuda_calls.c
cuda_calls_DEPS := $(FAKECUDA)
cuda_calls_LDLIBS := $(FAKECUDA)
cuda_calls_dlsym_SRCS := tests/traced/cuda_calls.c
cuda_calls_dlsym_CFLAGS := -DCUDA_BY=BY_DLSYM
cuda_calls_dlsym_LDLIBS := -ldl
cuda_calls_lookup_SRCS := tests/traced/cuda_calls.c
cuda_calls_lookup_CFLAGS := -DCUDA_BY=BY_LOOKUP
cuda_calls_lookup_LDLIBS := -ldl
cuda_no_driver_SRCS := tests/traced/cuda_no_driver.c
TEST_PROGRAMS += cuda_matrix cuda_matrix_check
cuda_matrix_SRCS := tests/traced/cuda_matrix.c
cuda_matrix_LDLIBS := -ldl
cuda_matrix_check_SRCS := tests/traced/cuda_matrix_check.c
cuda_matrix_check_LIBS := libspoolreader libevents
