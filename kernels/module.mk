# SPDX-License-Identifier: Apache-2.0
# CPU implementations of the kernels: the oracle, the CPU back end, and what the simulated driver runs.
LIBS += libcpukernels
libcpukernels_SRCS := kernels/cpu/cpu_kernels.c kernels/cpu/sampler_cpu.c
