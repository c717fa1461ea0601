# SPDX-License-Identifier: Apache-2.0
PROGRAMS += waylay
waylay_SRCS := $(wildcard viewers/*.c)
waylay_CFLAGS := $(call pkg_cflags,jansson) $(if $(HAVE_LIBFABRIC),-DHAVE_LIBFABRIC=1) $(if $(HAVE_LIBDW),-DHAVE_LIBDW=1)
waylay_LIBS := libexporters libspoolreader libsettings libevents
waylay_LDLIBS := $(call pkg_libs,jansson) $(call pkg_libs,zlib) $(if $(HAVE_LIBDW),$(call pkg_libs,libdw)) -ldl
