# SPDX-License-Identifier: Apache-2.0
# The simulated CUPTI, for the simulated driver.
FCUPTI := fakecupti/libcupti.so.13
TEST_SHARED += $(FCUPTI)
$(FCUPTI)_SRCS := tests/fakecupti/fakecupti.c
$(FCUPTI)_LDFLAGS := -Wl,-soname,libcupti.so.13 -Wl,-z,nodelete -Wl,-Bsymbolic
$(FCUPTI)_LDLIBS := -ldl

# Our records against NVIDIA's, where its header is installed in a version that has all of them.
CUPTI_INCLUDE ?= /usr/local/cuda/include
ifneq ($(HAVE_CMOCKA)$(shell grep -l CUpti_ActivityKernel10 $(CUPTI_INCLUDE)/cupti_activity.h 2>/dev/null),$(HAVE_CMOCKA))
UNIT_TESTS += test_cupti_abi
test_cupti_abi_SRCS := tests/unit/test_cupti_abi.c
test_cupti_abi_CFLAGS := -isystem $(CUPTI_INCLUDE)
test_cupti_abi_LDLIBS := -lcmocka
endif
