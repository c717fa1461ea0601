# Programs and shared objects that the scripts in tests/traced start or open.
TEST_SHARED += stackprobe.so
stackprobe.so_SRCS := tests/traced/python/stackprobe.c $(addprefix tracer/inject/, \
	stack.c python.c pylayout.c pylines.c memory.c elf.c symbols.c dlsym.S)
stackprobe.so_CFLAGS := -ftls-model=initial-exec
stackprobe.so_LDFLAGS := -Wl,--version-script=tests/traced/python/stackprobe.map
