# SPDX-License-Identifier: Apache-2.0
# libwaylay.so compiles the writer for itself; this library of it is for tests and benchmarks.
LIBS += libspoolwriter libspoolreader
libspoolwriter_SRCS := $(sort $(wildcard tracer/spool/writer*.c)) tracer/spool/copy.c
libspoolwriter_CFLAGS := -ftls-model=initial-exec
# Needs libevents after it.
libspoolreader_SRCS := $(sort $(wildcard tracer/spool/reader*.c)) tracer/spool/copy.c

ifneq ($(HAVE_CMOCKA),)
SPOOL_TESTS := test_spool_write test_spool_limits test_spool_signals test_spool_damage test_spool_kill test_spool_lines test_spool_full test_spool_power test_spool_crowd
UNIT_TESTS += $(SPOOL_TESTS)
define spool_test
$(1)_SRCS := tests/unit/$(1).c
$(1)_LIBS := libspoolwriter libspoolreader libevents
$(1)_LDLIBS := -lcmocka
endef
$(foreach t,$(SPOOL_TESTS),$(eval $(call spool_test,$(t))))
endif

BENCHES += bench_record
bench_record_SRCS := tests/bench/bench_record.c
bench_record_CFLAGS := -ftls-model=initial-exec
bench_record_LIBS := libspoolwriter libevents

.PHONY: fuzz-spool
fuzz-spool: ## libFuzzer target of the spool reader (needs clang)
	@mkdir -p $(O)/fuzz
	clang $(CPPFLAGS) -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $(O)/fuzz/fuzz_spool tests/fuzz/fuzz_spool.c \
		$(libspoolreader_SRCS) $(libevents_SRCS)

# bench_engines.sh
BENCHES += record_engine uftrace_calls
record_engine_SRCS := tests/bench/record_engine.c
record_engine_CFLAGS := -ftls-model=initial-exec
record_engine_LIBS := libspoolwriter libevents
record_engine_LDLIBS := -ldl
uftrace_calls_SRCS := tests/bench/uftrace_calls.c
uftrace_calls_CFLAGS := -pg -fno-pie
uftrace_calls_LDFLAGS := -pg -no-pie

# bench_large.sh
BENCHES += large_spool
large_spool_SRCS := tests/bench/large_spool.c
large_spool_CFLAGS := -ftls-model=initial-exec
large_spool_LIBS := libspoolwriter libspoolreader libevents
