# SPDX-License-Identifier: Apache-2.0
# The `waylay` command. All but its main is a library, so that tests use the same objects.
VIEWERS_CFLAGS := $(call pkg_cflags,jansson) $(if $(HAVE_LIBFABRIC),-DHAVE_LIBFABRIC=1) $(if $(HAVE_LIBDW),-DHAVE_LIBDW=1) \
	$(if $(HAVE_MICROHTTPD),-DHAVE_MICROHTTPD=1 $(call pkg_cflags,libmicrohttpd))
VIEWERS_LIBS := libviewers libexporters libctf libspoolreader libsettings libevents
VIEWERS_LDLIBS := $(call pkg_libs,jansson) $(if $(HAVE_MICROHTTPD),$(call pkg_libs,libmicrohttpd)) $(EXPORTERS_LDLIBS) -ldl

LIBS += libviewers
libviewers_SRCS := $(filter-out viewers/main.c,$(wildcard viewers/*.c)) viewers/page/page.S
$(O)/obj/libviewers/viewers/page/page.S.o: $(wildcard viewers/page/*.css viewers/page/*.html viewers/page/*.js)
libviewers_CFLAGS := $(VIEWERS_CFLAGS) $(if $(HAVE_ZSTD),-DHAVE_ZSTD=1 $(call pkg_cflags,libzstd))

PROGRAMS += waylay
waylay_SRCS := viewers/main.c
waylay_LIBS := $(VIEWERS_LIBS)
waylay_LDLIBS := $(VIEWERS_LDLIBS)

MANPAGES += $(wildcard docs/man/*.1)

ifeq ($(HAVE_CMOCKA),1)
VIEWERS_TESTS := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_analysis*.c tests/unit/test_gate*.c tests/unit/test_pack.c))
UNIT_TESTS += $(VIEWERS_TESTS)
$(foreach t,$(VIEWERS_TESTS),$(eval $(t)_SRCS := tests/unit/$(t).c tests/unit/synthetic_reader.c) \
	$(eval $(t)_CFLAGS := $(VIEWERS_CFLAGS) $(call pkg_cflags,cmocka)) \
	$(eval $(t)_LIBS := $(VIEWERS_LIBS)) \
	$(eval $(t)_LDLIBS := $(VIEWERS_LDLIBS) $(call pkg_libs,cmocka)))
endif

# bench_page.sh, page.sh and any other that wants a recording of many events
TEST_PROGRAMS += make_recording
make_recording_SRCS := tests/bench/make_recording.c
make_recording_CFLAGS := -ftls-model=initial-exec
make_recording_LIBS := libspoolwriter libevents

# bench_top.sh, top.sh
TEST_PROGRAMS += watched_loop
watched_loop_SRCS := tests/bench/watched_loop.c
watched_loop_CFLAGS := -ftls-model=initial-exec
watched_loop_LIBS := libspoolwriter libevents

# The page's script with its libraries: from the npm registry, as viewers/page/package-lock.json pins them.
# Needs node; building Waylay does not, since the result is in the source.
.PHONY: viewers
viewers: ## build the report page's script again (needs node and npm), and the Perfetto UI's tree
	@mkdir -p $(O)/page
	$(Q)cp viewers/page/package.json viewers/page/package-lock.json $(O)/page
	$(Q)cd $(O)/page && npm ci --ignore-scripts --no-audit --no-fund --silent
	$(Q)node viewers/page/build.mjs $(O)/page/node_modules viewers/page/built.js
	$(Q)python3 scripts/perfetto_server.py

BENCHES += bench_report
bench_report_SRCS := tests/bench/bench_report.c
bench_report_CFLAGS := -ftls-model=initial-exec
bench_report_LIBS := libspoolwriter libevents

.PHONY: fuzz-pack
fuzz-pack: ## libFuzzer target of packed recordings (needs clang and libzstd)
	@mkdir -p $(O)/fuzz
	clang $(CPPFLAGS) -DHAVE_ZSTD=1 -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $(O)/fuzz/fuzz_pack tests/fuzz/fuzz_pack.c viewers/pack.c \
		$(libspoolreader_SRCS) $(libevents_SRCS) $(call pkg_libs,libzstd) -lz

.PHONY: pictures
pictures: demo ## draw README's picture of the demo's trace again
	$(Q)$(O)/waylay export -f chrome -o $(O)/demo.json waylay-out
	$(Q)python3 scripts/picture.py $(O)/demo.json docs/trace.svg
