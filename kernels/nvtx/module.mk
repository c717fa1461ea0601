# SPDX-License-Identifier: Apache-2.0
# The NVTX client of the workloads; collectives use it too, so it stands on its own.
LIBS += libnvtxclient
libnvtxclient_SRCS := kernels/nvtx/nvtx.c

ifdef HAVE_CMOCKA
TEST_SHARED += nvtx_client_tool.so
nvtx_client_tool.so_SRCS := tests/unit/nvtx_tool.c
UNIT_TESTS += test_nvtx_client
test_nvtx_client_SRCS := tests/unit/test_nvtx_client.c tests/unit/nvtx_tool.c tests/unit/nvtx_reference.c
test_nvtx_client_LIBS := libnvtxclient
test_nvtx_client_LDLIBS := -lcmocka -ldl
# NVIDIA's own client headers, to compare with, where they are installed
NVTX3_DIR := $(patsubst %/nvtx3/nvToolsExt.h,%,$(firstword $(wildcard $(NVCC:%/bin/nvcc=%/include)/nvtx3/nvToolsExt.h \
	/usr/local/cuda/include/nvtx3/nvToolsExt.h /usr/include/nvtx3/nvToolsExt.h)))
test_nvtx_client_CFLAGS := $(if $(NVTX3_DIR),-isystem $(NVTX3_DIR) -DHAVE_NVTX3=1)
endif
