# SPDX-License-Identifier: Apache-2.0
# libwaylay.so compiles the writer for itself; this library of it is for tests and benchmarks.
LIBS += libspoolwriter libspoolreader
libspoolwriter_SRCS := $(sort $(wildcard tracer/spool/writer*.c))
libspoolwriter_CFLAGS := -ftls-model=initial-exec
# Needs libevents after it.
libspoolreader_SRCS := $(sort $(wildcard tracer/spool/reader*.c))
