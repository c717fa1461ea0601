# SPDX-License-Identifier: Apache-2.0
# The provider is a shared object of its own: no other part may need liblttng-ust.
ifneq ($(HAVE_LTTNG),)
SHARED += libwaylay-lttng.so
libwaylay-lttng.so_SRCS := tracer/lttng/provider.c tracer/events/events.c
# LTTng's macros make functions without prototypes and look at what may be undefined.
libwaylay-lttng.so_CFLAGS := $(call pkg_cflags,lttng-ust) -Wno-missing-prototypes -Wno-undef -Wno-shadow
libwaylay-lttng.so_LDFLAGS := -Wl,-soname,libwaylay-lttng.so
libwaylay-lttng.so_LDLIBS := $(call pkg_libs,lttng-ust) -ldl
endif

# Finding traces needs nothing; reading them is an object of its own, opened when there is one.
LIBS += libctf
libctf_SRCS := tracer/lttng/leaf.c
ifneq ($(HAVE_BABELTRACE),)
CTF_SRCS := tracer/lttng/ctf.c tracer/lttng/ctf_event.c tracer/lttng/ctf_graph.c tracer/lttng/ctf_layout.c \
	tracer/lttng/ctf_message.c tracer/lttng/ctf_packets.c tracer/lttng/ctf_plan.c \
	tracer/lttng/import.c tracer/lttng/import_read.c
SHARED += libwaylay-ctf.so
libwaylay-ctf.so_SRCS := $(CTF_SRCS) tracer/lttng/leaf.c tracer/events/events.c
libwaylay-ctf.so_CFLAGS := $(call pkg_cflags,babeltrace2)
libwaylay-ctf.so_LDFLAGS := -Wl,-soname,libwaylay-ctf.so -Wl,--no-undefined
libwaylay-ctf.so_LDLIBS := $(call pkg_libs,babeltrace2)
endif
ifneq ($(HAVE_BABELTRACE),)
BENCHES += ctf_import
ctf_import_SRCS := tests/bench/ctf_import.c $(CTF_SRCS)
ctf_import_CFLAGS := $(call pkg_cflags,babeltrace2)
ctf_import_LIBS := libctf libevents
ctf_import_LDLIBS := $(call pkg_libs,babeltrace2)
endif

ifneq ($(and $(HAVE_BABELTRACE),$(HAVE_CMOCKA)),)
UNIT_TESTS += test_ctf
test_ctf_SRCS := tests/unit/test_ctf.c tests/unit/ctf_write.c $(CTF_SRCS)
test_ctf_CFLAGS := $(call pkg_cflags,babeltrace2)
test_ctf_LIBS := libctf libevents
test_ctf_LDLIBS := $(call pkg_libs,babeltrace2) -lcmocka
endif

.PHONY: fuzz-ctf
fuzz-ctf: ## libFuzzer target of the CTF reader (needs clang and babeltrace2)
	@mkdir -p $(O)/fuzz
	clang $(CPPFLAGS) $(call pkg_cflags,babeltrace2) -std=gnu11 -g -O1 -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=all -o $(O)/fuzz/fuzz_ctf tests/fuzz/fuzz_ctf.c tests/unit/ctf_write.c \
		$(CTF_SRCS) $(libctf_SRCS) $(libevents_SRCS) $(call pkg_libs,babeltrace2)
