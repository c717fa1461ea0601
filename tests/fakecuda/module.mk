# SPDX-License-Identifier: Apache-2.0
# The simulated CUDA driver, and the tests of it. The CPU kernels of the workloads are in it where
# that library is built; without it the driver has its own test kernels only.
FC := fakecuda/libcuda.so.1
TEST_SHARED += $(FC)
$(FC)_SRCS := $(patsubst %,tests/fakecuda/%.c,activity capture context copy device errors event graph handle \
	kernels launch memcpy memory memset module op pointer pool procaddr settings share stream \
	stream_ops vmm)
# nodelete: worker threads run its code until the process ends. symbolic: its own entries are meant
# when cuGetProcAddress answers, also when a preloaded library has the same names.
$(FC)_LDLIBS := -ldl
$(FC)_LDFLAGS := -Wl,-soname,libcuda.so.1 -Wl,-z,nodelete -Wl,-Bsymbolic
ifneq ($(filter libcpukernels,$(LIBS)),)
$(FC)_CFLAGS := -DFC_HAVE_CPU_KERNELS=1
$(FC)_LIBS := libcpukernels libcolldevicecpu libcoll libcollreduce
$(FC)_LDLIBS += $(libcpukernels_LDLIBS) -lm
else
$(FC)_CFLAGS := -DFC_HAVE_CPU_KERNELS=0
endif

ifdef HAVE_CMOCKA
UNIT_TESTS += test_fakecuda
test_fakecuda_SRCS := tests/unit/test_fakecuda.c \
	$(patsubst %,tests/fakecuda/test/%.c,api capture driver holds memory process share streams)
test_fakecuda_LDLIBS := -lcmocka -ldl
endif

# Our header against NVIDIA's, where the toolkit of the version we describe is installed.
CUDA_INCLUDE ?= /usr/local/cuda/include
ifneq ($(shell sed -n 's/^.define CUDA_VERSION *\(13...\)$$/\1/p' $(CUDA_INCLUDE)/cuda.h 2>/dev/null),)
UNIT_TESTS += test_fakecuda_abi
test_fakecuda_abi_SRCS := $(patsubst %,tests/fakecuda/test/%.c,abi abi_ours abi_theirs)
test_fakecuda_abi_CFLAGS := -isystem $(CUDA_INCLUDE)
endif
