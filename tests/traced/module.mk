# Programs and shared objects that the scripts in tests/traced start or open.

# a recording as text
TEST_PROGRAMS += spool_dump
# not yet known here: tracer/lttng/module.mk comes later
spool_dump_SRCS = tests/traced/dump.c $(CTF_SRCS)
spool_dump_CFLAGS := $(if $(HAVE_BABELTRACE),-DHAVE_BABELTRACE=1 $(call pkg_cflags,babeltrace2))
spool_dump_LIBS := libctf libspoolreader libevents
spool_dump_LDLIBS := $(if $(HAVE_BABELTRACE),$(call pkg_libs,babeltrace2))

TEST_SHARED += stackprobe.so
stackprobe.so_SRCS := tests/traced/python/stackprobe.c $(addprefix tracer/inject/, \
	stack.c unwind.c unwind_rule.c python.c pyawait.c pylayout.c pylines.c memory.c elf.c symbols.c dlsym.S)
stackprobe.so_CFLAGS := -ftls-model=initial-exec
stackprobe.so_LDFLAGS := -Wl,--no-undefined -Wl,--version-script=tests/traced/python/stackprobe.map

# dlsym.sh
TEST_SHARED += dlsym/libfirst.so dlsym/libsecond.so dlsym/local.so dlsym/early.so dlsym/other.so
dlsym/libfirst.so_SRCS := tests/traced/dlsym/first.c
dlsym/libfirst.so_CFLAGS := -O0 -fvisibility=default
dlsym/libsecond.so_SRCS := tests/traced/dlsym/second.c
dlsym/libsecond.so_CFLAGS := -fvisibility=default
dlsym/libsecond.so_LDFLAGS := -Wl,--version-script=tests/traced/dlsym/second.map
dlsym/local.so_SRCS := tests/traced/dlsym/local.c
dlsym/local.so_CFLAGS := -O0 -fvisibility=default
dlsym/early.so_SRCS := tests/traced/dlsym/early.c
dlsym/early.so_CFLAGS := -O0 -fvisibility=default
dlsym/early.so_LDFLAGS := -Wl,-soname,early.so
dlsym/other.so_SRCS := tests/traced/dlsym/other.c
dlsym/other.so_CFLAGS := -fvisibility=default -O2
TEST_PROGRAMS += dlsym_probe
dlsym_probe_SRCS := tests/traced/dlsym/probe.c
dlsym_probe_CFLAGS := -O0
dlsym_probe_DEPS := $(addprefix $(O)/tests/dlsym/,libfirst.so libsecond.so early.so)
dlsym_probe_LDLIBS := -Wl,--no-as-needed -L$(O)/tests/dlsym -lfirst -lsecond $(O)/tests/dlsym/early.so \
	-Wl,-rpath,'$$ORIGIN/dlsym'

ifdef HAVE_LIBFABRIC
TEST_PROGRAMS += ofi_ops ofi_ops_dl
ofi_ops_SRCS := tests/traced/ofi_ops.c
ofi_ops_LDLIBS := $(call pkg_libs,libfabric)
ofi_ops_dl_SRCS := tests/traced/ofi_ops.c
ofi_ops_dl_CFLAGS := -DOFI_BY_DLSYM=1
ofi_ops_dl_LDLIBS := -ldl
# ofi_door.sh: a plugin whose own libraries' symbols come before all others
TEST_SHARED += ofi_plugin.so
ofi_plugin.so_SRCS := tests/traced/ofi_ops.c
ofi_plugin.so_CFLAGS := -fvisibility=default
ofi_plugin.so_LDLIBS := $(call pkg_libs,libfabric)
TEST_PROGRAMS += ofi_deepbind
ofi_deepbind_SRCS := tests/traced/ofi_deepbind.c
ofi_deepbind_LDLIBS := -ldl
# ofi_plugins.sh
TEST_SHARED += ofi_shapes.so
ofi_shapes.so_SRCS := tests/traced/ofi_shapes.c
ofi_shapes.so_LDLIBS := $(call pkg_libs,libfabric)
TEST_PROGRAMS += ofi_host
ofi_host_SRCS := tests/traced/ofi_host.c
ofi_host_LDLIBS := -ldl
endif

# nvtx.sh
TEST_PROGRAMS += nvtx_ranges
nvtx_ranges_SRCS := tests/traced/nvtx/ranges.c
nvtx_ranges_LIBS := libnvtxclient
nvtx_ranges_LDLIBS := -ldl
TEST_SHARED += nvtx_tool.so
nvtx_tool.so_SRCS := tests/traced/nvtx/tool.c
NVTX_HEADERS := $(firstword $(wildcard /usr/local/cuda/include/nvtx3/nvToolsExt.h /usr/include/nvtx3/nvToolsExt.h))
ifneq ($(NVTX_HEADERS),)
TEST_PROGRAMS += nvtx_ranges_nvidia
nvtx_ranges_nvidia_SRCS := tests/traced/nvtx/ranges.c
nvtx_ranges_nvidia_CFLAGS := -DNVIDIA_HEADER=1 -isystem $(patsubst %/nvtx3/nvToolsExt.h,%,$(NVTX_HEADERS))
nvtx_ranges_nvidia_LDLIBS := -ldl
endif

# start.sh
TEST_PROGRAMS += exec_cost
exec_cost_SRCS := tests/traced/start/exec_cost.c

# processes.sh
TEST_PROGRAMS += traced_threads
traced_threads_SRCS := tests/traced/sanitize/threads.c
traced_threads_LDLIBS := -ldl

# python.sh (and stackprobe.so above)
TEST_SHARED += python_version.so
python_version.so_SRCS := tests/traced/python/version.c

# stack.sh
TEST_SHARED += stack/callback.so
stack/callback.so_SRCS := tests/traced/stack/callback.c
TEST_PROGRAMS += stack_reload
stack_reload_SRCS := tests/traced/stack/reload.c
stack_reload_LDLIBS := -ldl

# hostile.sh
TEST_PROGRAMS += hostile_job
hostile_job_SRCS := tests/traced/hostile/job.c
hostile_job_DEPS := $(O)/tests/fakecuda/libcuda.so.1
hostile_job_LDLIBS := $(O)/tests/fakecuda/libcuda.so.1

# control.sh
TEST_PROGRAMS += control_job
control_job_SRCS := tests/traced/control/job.c
control_job_LIBS := libnvtxclient
control_job_LDLIBS := -ldl

# ground_truth.sh
TEST_PROGRAMS += ground_rules
ground_rules_SRCS := tests/traced/ground_rules.c
ground_rules_DEPS := $(O)/tests/fakecuda/libcuda.so.1
ground_rules_LDLIBS := $(O)/tests/fakecuda/libcuda.so.1
ifdef HAVE_LIBFABRIC
TEST_PROGRAMS += ground_truth
ground_truth_SRCS := tests/traced/ground_truth.c
ground_truth_LIBS := libnvtxclient
ground_truth_DEPS := $(O)/tests/fakecuda/libcuda.so.1
ground_truth_LDLIBS := $(O)/tests/fakecuda/libcuda.so.1 $(call pkg_libs,libfabric) -ldl
endif

# stragglers.sh
ifdef HAVE_LIBFABRIC
TEST_PROGRAMS += ground_straggler
ground_straggler_SRCS := tests/traced/ground_straggler.c
ground_straggler_LIBS := libnvtxclient
ground_straggler_DEPS := $(O)/tests/fakecuda/libcuda.so.1
ground_straggler_LDLIBS := $(O)/tests/fakecuda/libcuda.so.1 $(call pkg_libs,libfabric) -ldl
endif

# cupti.sh
TEST_PROGRAMS += cupti_client
cupti_client_SRCS := tests/traced/cupti/client.c
cupti_client_DEPS := $(O)/tests/fakecuda/libcuda.so.1 $(O)/tests/fakecupti/libcupti.so.13
cupti_client_LDLIBS := $(O)/tests/fakecuda/libcuda.so.1 $(O)/tests/fakecupti/libcupti.so.13 -ldl

# instructions.sh
TEST_PROGRAMS += record_calls
record_calls_SRCS := tests/traced/record/calls.c
record_calls_CFLAGS := -ftls-model=initial-exec
record_calls_LIBS := libspoolwriter libevents

# storms.sh
TEST_PROGRAMS += storm_job storms
storm_job_SRCS := tests/traced/storm/job.c
storm_job_DEPS := $(O)/tests/fakecuda/libcuda.so.1
storm_job_LDLIBS := $(O)/tests/fakecuda/libcuda.so.1
storms_SRCS := tests/traced/storm/storms.c
storms_LIBS := libspoolreader libevents
