# SPDX-License-Identifier: Apache-2.0
# The NVTX client of the workloads; collectives use it too, so it stands on its own.
LIBS += libnvtxclient
libnvtxclient_SRCS := kernels/nvtx/nvtx.c
