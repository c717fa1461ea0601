# SPDX-License-Identifier: Apache-2.0
# libwaylay.so compiles the writer for itself; this library of it is for tests and benchmarks.
LIBS += libspoolwriter
libspoolwriter_SRCS := $(sort $(wildcard tracer/spool/writer*.c))
libspoolwriter_CFLAGS := -ftls-model=initial-exec
