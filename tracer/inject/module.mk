SHARED += libwaylay.so
# Wrappers in subfolders: each adds its own sources, so that areas stay apart.
libwaylay.so_SRCS := $(wildcard tracer/inject/*.c tracer/inject/*.S tracer/inject/cuda/*.c tracer/inject/nvtx/*.c tracer/inject/cupti/*.c) \
	$(if $(HAVE_LIBFABRIC),$(wildcard tracer/inject/ofi/*.c)) \
	tracer/events/events.c $(wildcard tracer/settings/*.c tracer/spool/writer*.c) tracer/spool/copy.c
libwaylay.so_CFLAGS := $(if $(HAVE_LIBFABRIC),-DHAVE_LIBFABRIC=1 $(call pkg_cflags,libfabric)) -ftls-model=initial-exec
libwaylay.so_DEPS := tracer/inject/libwaylay.map
libwaylay.so_LDFLAGS := -Wl,-soname,libwaylay.so -Wl,--no-undefined -Wl,-z,nodelete \
	-Wl,--version-script=tracer/inject/libwaylay.map
LIBS += libsettings
libsettings_SRCS := $(wildcard tracer/settings/*.c)

ifneq ($(HAVE_CMOCKA),)
UNIT_TESTS += test_inject_settings test_inject_elf test_inject_pylines
test_inject_pylines_SRCS := tests/unit/test_inject_pylines.c tracer/inject/pylines.c tracer/inject/pylayout.c
test_inject_pylines_LDLIBS := -lcmocka
UNIT_TESTS += test_inject_python
test_inject_python_SRCS := tests/unit/test_inject_python.c $(addprefix tracer/inject/,python.c pylines.c pylayout.c memory.c)
test_inject_python_LDLIBS := -lcmocka
UNIT_TESTS += test_inject_unwind
test_inject_unwind_SRCS := tests/unit/test_inject_unwind.c $(addprefix tracer/inject/,unwind.c unwind_rule.c elf.c memory.c)
test_inject_unwind_LDLIBS := -lcmocka
test_inject_settings_SRCS := tests/unit/test_inject_settings.c
test_inject_settings_LIBS := libsettings
test_inject_settings_LDLIBS := -lcmocka
test_inject_elf_SRCS := tests/unit/test_inject_elf.c tracer/inject/elf.c tracer/inject/memory.c
test_inject_elf_LDLIBS := -lcmocka -ldl
endif
