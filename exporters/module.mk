# SPDX-License-Identifier: Apache-2.0
ifeq ($(HAVE_ZLIB),1)
LIBS += libexporters
libexporters_SRCS := $(wildcard exporters/*.c exporters/model/*.c exporters/perfetto/*.c exporters/chrome/*.c exporters/table/*.c)
libexporters_CFLAGS := $(if $(HAVE_LIBDW),-DHAVE_LIBDW=1 $(call pkg_cflags,libdw)) $(call pkg_cflags,zlib) \
	$(if $(HAVE_SQLITE),-DHAVE_SQLITE=1 $(call pkg_cflags,sqlite3)) $(if $(HAVE_ZSTD),-DHAVE_ZSTD=1 $(call pkg_cflags,libzstd))
# What a program that links libexporters also needs: after it in _LIBS, and as _LDLIBS.
EXPORTERS_LIBS := libexporters libctf libspoolreader libevents
EXPORTERS_LDLIBS := $(if $(HAVE_LIBDW),$(call pkg_libs,libdw)) $(call pkg_libs,zlib) \
	$(if $(HAVE_SQLITE),$(call pkg_libs,sqlite3)) $(if $(HAVE_ZSTD),$(call pkg_libs,libzstd))

ifeq ($(HAVE_CMOCKA),1)
EXPORTERS_TESTS := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_model*.c tests/unit/test_perfetto*.c tests/unit/test_chrome*.c))
UNIT_TESTS += $(EXPORTERS_TESTS)
$(foreach t,$(EXPORTERS_TESTS),$(eval $(t)_SRCS := tests/unit/$(t).c tests/unit/synthetic_reader.c \
		tests/unit/export_check.c tests/perfetto/dump.c) \
	$(eval $(t)_CFLAGS := $(call pkg_cflags,cmocka) -DWAYLAY_SOURCE='"$(CURDIR)"' \
		$(if $(HAVE_LIBDW),-DHAVE_LIBDW=1)) \
	$(eval $(t)_LIBS := libexporters libctf libspoolreader libspoolwriter libevents) \
	$(eval $(t)_LDLIBS := $(EXPORTERS_LDLIBS) $(call pkg_libs,cmocka) -lm))
endif

TEST_PROGRAMS += dump_trace
dump_trace_SRCS := tests/perfetto/dump_trace.c tests/perfetto/dump.c
dump_trace_LIBS := $(EXPORTERS_LIBS)
dump_trace_LDLIBS := $(EXPORTERS_LDLIBS)

TEST_PROGRAMS += skewed
skewed_SRCS := tests/perfetto/skewed.c
skewed_LIBS := $(EXPORTERS_LIBS)
skewed_LDLIBS := $(EXPORTERS_LDLIBS) -lm

BENCHES += $(patsubst tests/bench/%.c,%,$(wildcard tests/bench/bench_export.c))
bench_export_SRCS := tests/bench/bench_export.c
bench_export_CFLAGS := $(if $(HAVE_ZSTD),-DHAVE_ZSTD=1)
bench_export_LIBS := libexporters libctf libspoolreader libspoolwriter libevents
bench_export_LDLIBS := $(EXPORTERS_LDLIBS)
endif
