# SPDX-License-Identifier: Apache-2.0
#
# Waylay: build, test, install. Hand-written; needs GNU make, a C compiler and pkg-config.
# Every folder describes itself in its module.mk (see docs/CONTRIBUTING.md, "Building").
#
#   make            build everything that this machine can build
#   make help       the list of targets
#
# Variables: VARIANT=release|debug|asan|tsan|ubsan|coverage  CC=gcc|clang  V=1  O=DIR  PREFIX  DESTDIR

VARIANT ?= release
O       ?= build/$(VARIANT)
PREFIX  ?= /usr/local
DESTDIR ?=
BINDIR  ?= $(PREFIX)/bin
LIBDIR  ?= $(PREFIX)/lib
MANDIR  ?= $(PREFIX)/share/man
VERSION := $(shell cat VERSION)

all: # the default target; its prerequisites are added below

PKG_CONFIG ?= pkg-config
pkg = $(shell $(PKG_CONFIG) --exists '$(1)' 2>/dev/null && echo 1)
pkg_cflags = $(shell $(PKG_CONFIG) --cflags '$(1)' 2>/dev/null)
pkg_libs = $(shell $(PKG_CONFIG) --libs '$(1)' 2>/dev/null)
header = $(shell printf '\#include <%s>\n' '$(1)' | $(CC) -E -x c - >/dev/null 2>&1 && echo 1)

# --- what this machine offers -------------------------------------------------------------------
HAVE_LIBFABRIC := $(call pkg,libfabric >= 1.9)
HAVE_LIBDW     := $(call pkg,libdw)
HAVE_JANSSON   := $(call pkg,jansson)
HAVE_ZLIB      := $(call pkg,zlib)
HAVE_MICROHTTPD := $(call pkg,libmicrohttpd >= 0.9.71)
HAVE_SQLITE    := $(call pkg,sqlite3)
HAVE_ZSTD      := $(call pkg,libzstd)
HAVE_UTHASH    := $(call header,uthash.h)
HAVE_CMOCKA    := $(call pkg,cmocka)
HAVE_LTTNG     := $(call pkg,lttng-ust >= 2.13)
HAVE_BABELTRACE := $(call pkg,babeltrace2 >= 2.0)
NVCC           ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
HAVE_NVCC      := $(if $(NVCC),1)

# --- flags --------------------------------------------------------------------------------------
WARN := -Wall -Wextra -Werror -Wmissing-prototypes -Wstrict-prototypes -Wold-style-definition \
	-Wshadow -Wpointer-arith -Wwrite-strings -Wundef -Wformat=2 -Wvla
OPT.release  := -O2 -g
OPT.debug    := -O0 -g -DWL_DEBUG=1
OPT.asan     := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
# gcc warns of each fence, which its race detector does not follow. Ours guard copies that are thrown away when changed.
OPT.tsan     := -O1 -g -fsanitize=thread -fno-omit-frame-pointer $(if $(findstring clang,$(CC)),,-Wno-tsan)
OPT.ubsan    := -O1 -g -fsanitize=undefined -fno-sanitize-recover=all
OPT.coverage := -O0 -g --coverage
ifeq ($(OPT.$(VARIANT)),)
$(error VARIANT=$(VARIANT) is not one of release debug asan tsan ubsan coverage)
endif
CPPFLAGS += -I. -D_GNU_SOURCE -DWAYLAY_VERSION='"$(VERSION)"'
ALL_CFLAGS = -std=gnu11 $(OPT.$(VARIANT)) $(WARN) -fPIC -fvisibility=hidden -fno-strict-aliasing -pthread $(CFLAGS)
ALL_LDFLAGS = $(OPT.$(VARIANT)) -pthread -Wl,-z,relro,-z,now $(LDFLAGS)

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' '$(1)' '$(patsubst $(O)/%,%,$(2))')

# --- modules ------------------------------------------------------------------------------------
# A module.mk adds to these lists:
#   LIBS     += libNAME          static library:  libNAME_SRCS  [libNAME_CFLAGS]
#   SHARED   += NAME.so          shared object:   NAME.so_SRCS  [_CFLAGS _LIBS _LDFLAGS _LDLIBS _DEPS]
#   PROGRAMS += NAME             program:         NAME_SRCS     [_CFLAGS _LIBS _LDFLAGS _LDLIBS]
#   UNIT_TESTS += NAME           cmocka program, as PROGRAMS, built to $(O)/tests/NAME
#   TEST_PROGRAMS += NAME        program that a test starts, as PROGRAMS, built to $(O)/tests/NAME
#   TEST_SHARED += PATH.so       shared object that a test preloads or opens, built to $(O)/tests/PATH.so
#   BENCHES  += NAME             benchmark program, as PROGRAMS, built to $(O)/bench/NAME
#   MANPAGES += docs/man/x.1
#   SUMMARY  += "text|HAVE_VAR|what is left out without it"  (see `make config`)
# _LIBS name static libraries of ours (libNAME), in link order.
LIBS :=
SHARED :=
PROGRAMS :=
UNIT_TESTS :=
TEST_PROGRAMS :=
TEST_SHARED :=
BENCHES :=
MANPAGES :=
MODULES := $(sort $(wildcard */module.mk */*/module.mk */*/*/module.mk))
include $(MODULES)

# objects: one a source file and a user of it with its own flags ($(1) = target name, $(2) = sources)
objs = $(patsubst %,$(O)/obj/$(1)/%.o,$(2))

define compile_rules
$(O)/obj/$(1)/%.c.o: %.c Makefile
	$$(call say,CC,$$<)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CPPFLAGS) $$(ALL_CFLAGS) $$($(1)_CFLAGS) -MMD -MP -c -o $$@ $$<
$(O)/obj/$(1)/%.S.o: %.S Makefile
	$$(call say,AS,$$<)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CPPFLAGS) $$(ALL_CFLAGS) $$($(1)_CFLAGS) -MMD -MP -c -o $$@ $$<
-include $(patsubst %.o,%.d,$(call objs,$(1),$($(1)_SRCS)))
endef

define static_rules
$(call compile_rules,$(1))
$(O)/lib/$(1).a: $(call objs,$(1),$($(1)_SRCS))
	$$(call say,AR,$$@)
	@mkdir -p $$(@D)
	$$(Q)rm -f $$@ && $$(AR) rcs $$@ $$^
endef

# $(1) name, $(2) output path, $(3) extra flags
define link_rules
$(call compile_rules,$(1))
$(2): $(call objs,$(1),$($(1)_SRCS)) $(patsubst %,$(O)/lib/%.a,$($(1)_LIBS)) $($(1)_DEPS)
	$$(call say,LINK,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(ALL_LDFLAGS) $(3) $$($(1)_LDFLAGS) -o $$@ $(call objs,$(1),$($(1)_SRCS)) \
		$(patsubst %,$(O)/lib/%.a,$($(1)_LIBS)) $$($(1)_LDLIBS)
endef

$(foreach l,$(LIBS),$(eval $(call static_rules,$(l))))
$(foreach s,$(SHARED),$(eval $(call link_rules,$(s),$(O)/$(s),-shared)))
$(foreach s,$(TEST_SHARED),$(eval $(call link_rules,$(s),$(O)/tests/$(s),-shared)))
$(foreach p,$(PROGRAMS),$(eval $(call link_rules,$(p),$(O)/$(p),)))
$(foreach p,$(UNIT_TESTS) $(TEST_PROGRAMS),$(eval $(call link_rules,$(p),$(O)/tests/$(p),)))
$(foreach p,$(BENCHES),$(eval $(call link_rules,$(p),$(O)/bench/$(p),)))

PRODUCTS := $(patsubst %,$(O)/%,$(SHARED) $(PROGRAMS))
TESTWARE := $(patsubst %,$(O)/tests/%,$(UNIT_TESTS) $(TEST_PROGRAMS) $(TEST_SHARED))

.PHONY: all config testware demo test test-slow check-asan check-tsan bench lint format install uninstall clean help
.DEFAULT_GOAL := all

all: $(PRODUCTS)
testware: all $(TESTWARE)

have = $(if $($(1)),yes,no)
config: ## what is built in on this machine, what is left out and why
	@printf 'Waylay %s, %s build with %s\n' '$(VERSION)' '$(VARIANT)' '$(CC)'
	@printf '  %-26s %-4s %s\n' \
	 'libfabric headers' '$(call have,HAVE_LIBFABRIC)' '$(if $(HAVE_LIBFABRIC),,no fabric tracing, no collectives: install libfabric-dev)' \
	 'elfutils (libdw)' '$(call have,HAVE_LIBDW)' '$(if $(HAVE_LIBDW),,native frames stay module+offset: install libdw-dev)' \
	 'jansson' '$(call have,HAVE_JANSSON)' '$(if $(HAVE_JANSSON),,needed: install libjansson-dev)' \
	 'libmicrohttpd' '$(call have,HAVE_MICROHTTPD)' '$(if $(HAVE_MICROHTTPD),,no waylay view: install libmicrohttpd-dev)' \
	 'zlib' '$(call have,HAVE_ZLIB)' '$(if $(HAVE_ZLIB),,needed: install zlib1g-dev)' \
	 'SQLite' '$(call have,HAVE_SQLITE)' '$(if $(HAVE_SQLITE),,no export to SQLite: install libsqlite3-dev)' \
	 'zstd' '$(call have,HAVE_ZSTD)' '$(if $(HAVE_ZSTD),,no --compress=zstd: install libzstd-dev)' \
	 'uthash' '$(call have,HAVE_UTHASH)' '$(if $(HAVE_UTHASH),,needed: install uthash-dev)' \
	 'nvcc (device code)' '$(call have,HAVE_NVCC)' '$(if $(HAVE_NVCC),$(NVCC),workloads run on the CPU back end or the simulated driver only)' \
	 'cmocka' '$(call have,HAVE_CMOCKA)' '$(if $(HAVE_CMOCKA),,no unit tests: install libcmocka-dev)' \
	 'LTTng-UST' '$(call have,HAVE_LTTNG)' '$(if $(HAVE_LTTNG),,no LTTng sink: install liblttng-ust-dev)' \
	 'babeltrace2' '$(call have,HAVE_BABELTRACE)' '$(if $(HAVE_BABELTRACE),,no CTF import: install libbabeltrace2-dev)'

demo: ## trace the bundled workloads without a GPU; does its own set-up
	$(Q)scripts/setup.sh demo
	$(Q)+$(MAKE) --no-print-directory all $(O)/tests/fakecuda/libcuda.so.1
	$(Q)scripts/demo.sh $(O)

test: ## every test that needs no GPU; does its own set-up
	$(Q)scripts/setup.sh test
	$(Q)+$(MAKE) --no-print-directory config
	$(Q)+$(MAKE) --no-print-directory testware
	$(Q)tests/run.sh $(O)

test-slow: ## sanitizers, long campaigns, other compilers
	$(Q)tests/slow.sh

check-asan check-tsan: check-%: ## unit and traced tests in an ASan / TSan build
	$(Q)+$(MAKE) --no-print-directory VARIANT=$* testware
	$(Q)tests/run.sh build/$*

bench: all $(patsubst %,$(O)/bench/%,$(BENCHES)) testware ## what a hooked call costs, beside its peers in the same run
	$(Q)tests/bench/run.sh $(O)

C_SOURCES = $(shell git ls-files --cached --others --exclude-standard '*.c' '*.h' 2>/dev/null)
lint: ## clang-format, clang-tidy, cppcheck, shellcheck
	$(Q)scripts/lint.sh $(C_SOURCES)

format: ## rewrite the sources in the project's format
	$(Q)clang-format -i $(C_SOURCES)

install: all ## install to $(DESTDIR)$(PREFIX)
	install -d '$(DESTDIR)$(BINDIR)' '$(DESTDIR)$(LIBDIR)/waylay' '$(DESTDIR)$(MANDIR)/man1'
	$(if $(PROGRAMS),install -m 755 $(patsubst %,$(O)/%,$(PROGRAMS)) '$(DESTDIR)$(BINDIR)')
	$(if $(SHARED),install -m 755 $(patsubst %,$(O)/%,$(SHARED)) '$(DESTDIR)$(LIBDIR)/waylay')
	install -d '$(DESTDIR)$(PREFIX)/share/waylay/perfetto/waylay'
	install -m 644 viewers/perfetto/waylay/*.sql '$(DESTDIR)$(PREFIX)/share/waylay/perfetto/waylay'
	install -m 644 viewers/perfetto/summary.textproto '$(DESTDIR)$(PREFIX)/share/waylay/perfetto'
	$(if $(MANPAGES),install -m 644 $(MANPAGES) '$(DESTDIR)$(MANDIR)/man1')

uninstall: ## remove what install put there
	rm -f $(patsubst %,'$(DESTDIR)$(BINDIR)/%',$(PROGRAMS)) $(patsubst %,'$(DESTDIR)$(MANDIR)/man1/%',$(notdir $(MANPAGES)))
	rm -rf '$(DESTDIR)$(LIBDIR)/waylay' '$(DESTDIR)$(PREFIX)/share/waylay'

clean: ## remove everything built
	rm -rf build

help: ## this list
	@printf 'make [TARGET] [VARIANT=release|debug|asan|tsan|ubsan|coverage] [CC=gcc|clang] [V=1] [PREFIX=DIR] [DESTDIR=DIR]\n\n'
	@awk -F ':.*## ' '/^[a-z][a-z %-]*:.*## / { printf "  %-22s %s\n", $$1, $$2 }' Makefile
