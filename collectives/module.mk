# SPDX-License-Identifier: Apache-2.0
# Reference collectives over libfabric. The library (transport, registration cache, algorithms) and
# its tests build anywhere; the libfabric back end and the program need libfabric's headers (only
# these: the library itself is opened at run time).

# The CPU's share of a reduction is plain loops that the compiler vectorises; -O2 does that for few.
coll_fast := $(if $(filter release,$(VARIANT)),-O3)

LIBS += libcoll libmrcache
libmrcache_SRCS := collectives/mr_cache.c collectives/ordmap.c collectives/slab.c
LIBS += libcollreduce
libcollreduce_SRCS := collectives/reduce.c
libcollreduce_CFLAGS := $(coll_fast) -ffp-contract=off
libcoll_SRCS := collectives/transport.c collectives/transport_loop.c collectives/dtype.c \
	collectives/launch.c collectives/spawn.c collectives/rendezvous.c collectives/link.c collectives/guard.c collectives/comm.c \
	collectives/register.c collectives/transport_staged.c \
	collectives/ring.c collectives/all_reduce.c collectives/scatter_gather.c collectives/broadcast.c
LIBS += libcolldevice libcolldevicecpu
libcolldevice_SRCS := collectives/device_cuda.c
libcolldevicecpu_SRCS := collectives/device_kernels.c
ifneq ($(HAVE_LIBFABRIC),)
libcoll_SRCS += collectives/transport_ofi.c collectives/ofi_lib.c
libcoll_CFLAGS := $(call pkg_cflags,libfabric)
libcoll_SRCS += collectives/world.c
PROGRAMS += waylay-coll-perf
waylay-coll-perf_SRCS := $(wildcard collectives/perf/*.c)
waylay-coll-perf_LIBS := libcoll libcollreduce libmrcache libcolldevice libcollkernels libkernels libnvtxclient
waylay-coll-perf_LDLIBS := -ldl
endif

BENCHES += mr_cache
mr_cache_SRCS := collectives/bench/mr_cache.c
mr_cache_LIBS := libmrcache

ifneq ($(HAVE_CMOCKA),)
UNIT_TESTS += test_mrcache
test_mrcache_SRCS := tests/unit/test_mrcache.c
test_mrcache_LIBS := libmrcache
test_mrcache_LDLIBS := -lcmocka
UNIT_TESTS += test_mrcache_soak
test_mrcache_soak_SRCS := tests/unit/test_mrcache_soak.c
test_mrcache_soak_LIBS := libmrcache
test_mrcache_soak_LDLIBS := -lcmocka
UNIT_TESTS += test_coll test_coll_dtype
test_coll_SRCS := tests/unit/test_coll.c tests/unit/coll_device.c
test_coll_LIBS := libcoll libcollreduce libmrcache
test_coll_LDLIBS := -lcmocka -lm -ldl
test_coll_dtype_SRCS := tests/unit/test_coll_dtype.c
test_coll_dtype_LIBS := libcoll libcollreduce
test_coll_dtype_LDLIBS := -lcmocka -lm -ldl
UNIT_TESTS += test_coll_rdv
test_coll_rdv_SRCS := tests/unit/test_coll_rdv.c
test_coll_rdv_LIBS := libcoll
test_coll_rdv_LDLIBS := -lcmocka
ifneq ($(HAVE_LIBFABRIC),)
UNIT_TESTS += test_coll_ofi
test_coll_ofi_SRCS := tests/unit/test_coll_ofi.c
test_coll_ofi_LIBS := libcoll
test_coll_ofi_LDLIBS := -lcmocka -ldl
endif
endif
