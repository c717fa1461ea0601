# SPDX-License-Identifier: Apache-2.0
# Reference collectives over libfabric. The library (transport, registration cache, algorithms) and
# its tests build anywhere; the libfabric back end and the program need libfabric's headers (only
# these: the library itself is opened at run time).

# The CPU's share of a reduction is plain loops that the compiler vectorises; -O2 does that for few.
coll_fast := $(if $(filter release,$(VARIANT)),-O3)

LIBS += libcoll libmrcache
libmrcache_SRCS := collectives/mr_cache.c collectives/ordmap.c
libcoll_SRCS := collectives/transport.c collectives/transport_loop.c
ifneq ($(HAVE_LIBFABRIC),)
libcoll_SRCS += collectives/transport_ofi.c collectives/ofi_lib.c
libcoll_CFLAGS := $(call pkg_cflags,libfabric)
endif

BENCHES += mr_cache
mr_cache_SRCS := collectives/bench/mr_cache.c
mr_cache_LIBS := libmrcache

ifneq ($(HAVE_CMOCKA),)
UNIT_TESTS += test_mrcache
test_mrcache_SRCS := tests/unit/test_mrcache.c
test_mrcache_LIBS := libmrcache
test_mrcache_LDLIBS := -lcmocka
endif
