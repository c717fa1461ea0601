# Mock providers of libfabric, found through FI_PROVIDER_PATH, and clients of them (README.md).
ifdef HAVE_LIBFABRIC
TEST_SHARED += provider/hmemmock-fi.so provider/verbsmock-fi.so provider/efamock-fi.so
provider/hmemmock-fi.so_SRCS := tests/mock/hmem.c tests/mock/hmem_data.c tests/mock/hmem_memory.c
provider/hmemmock-fi.so_LDLIBS := $(call pkg_libs,libfabric)

# ofi_mock.sh
TEST_PROGRAMS += mock_hmem mock_self
mock_hmem_SRCS := tests/mock/client_hmem.c
mock_hmem_LDLIBS := $(call pkg_libs,libfabric) -ldl
mock_self_SRCS := tests/mock/client_self.c
mock_self_LDLIBS := $(call pkg_libs,libfabric)
provider/verbsmock-fi.so_SRCS := tests/mock/self.c tests/mock/verbs.c
provider/verbsmock-fi.so_LDLIBS := $(call pkg_libs,libfabric)
provider/efamock-fi.so_SRCS := tests/mock/self.c tests/mock/efa.c
provider/efamock-fi.so_LDLIBS := $(call pkg_libs,libfabric)

# bench_ofi
BENCHES += bench_ofi
bench_ofi_SRCS := tests/bench/bench_ofi.c
bench_ofi_LDLIBS := -ldl
TEST_SHARED += provider/null-fi.so
provider/null-fi.so_SRCS := tests/bench/null_fabric.c
# bench_ofi_rate.sh: the least that any interposer does
TEST_SHARED += counting/counting-fi.so
counting/counting-fi.so_SRCS := tests/bench/counting.c
endif
