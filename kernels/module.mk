# SPDX-License-Identifier: Apache-2.0
# The reference kernels: CPU implementations (the oracle, the CPU back end, what the simulated driver runs), the driver
# loader, and the device code.
LIBS += libcpukernels libkernels
libcpukernels_SRCS := kernels/cpu/cpu_kernels.c kernels/cpu/sampler_cpu.c kernels/cpu/tbe_cpu.c kernels/cpu/tbe_kernels.c
libkernels_SRCS := kernels/cuda.c kernels/sampler.c kernels/tbe.c kernels/tbe_bounds.c kernels/image.S

# Device code: nvcc, else clang where it can make PTX, else the kernels' names for the simulated driver.
CLANG ?= clang
ifdef HAVE_NVCC
KERNELS_IMAGE_MAKER := nvcc
kernels_image_cmd = '$(NVCC)' --fatbin -gencode arch=compute_90,code=sm_90 -gencode arch=compute_80,code=compute_80 -O3 \
	-lineinfo -Werror all-warnings -o $@ $<
else ifneq ($(shell $(CLANG) --print-targets 2>/dev/null | grep -w nvptx64),)
KERNELS_IMAGE_MAKER := clang
kernels_image_cmd = $(CLANG) -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=sm_80 -O3 -S \
	-Wno-unknown-cuda-version -Werror -o $@ $<
else
KERNELS_IMAGE_MAKER := names
kernels_image_cmd = { echo WAYLAY-KERNELS; sed -n 's/^KERNEL(\(.*\))$$/\1/p' $(<:%.cu=%.def); } > $@
endif
kernels_image = $(O)/kernels/$(1).$(KERNELS_IMAGE_MAKER)

$(O)/kernels/%.$(KERNELS_IMAGE_MAKER): kernels/device/%.cu kernels/device/%.def kernels/module.mk \
		$(wildcard kernels/device/*.h)
	$(call say,DEVICE,$@)
	@mkdir -p $(@D)
	$(Q)$(kernels_image_cmd)

libkernels_CFLAGS := -DKERNELS_SAMPLER_IMAGE='"$(call kernels_image,sampler)"' \
	-DKERNELS_TBE_IMAGE='"$(call kernels_image,tbe)"' -DKERNELS_IMAGE_MAKER='"$(KERNELS_IMAGE_MAKER)"'
$(O)/obj/libkernels/kernels/image.S.o: $(call kernels_image,sampler) $(call kernels_image,tbe)

# What the collectives take of this folder: the driver loader and the code that reduces on a device.
LIBS += libcollkernels
libcollkernels_SRCS := kernels/coll_image.S
libcollkernels_CFLAGS := -DKERNELS_COLL_IMAGE='"$(call kernels_image,coll)"'
$(O)/obj/libcollkernels/kernels/coll_image.S.o: $(call kernels_image,coll)

libkernels_SRCS += kernels/perf_args.c kernels/perf_time.c kernels/perf_data.c kernels/sampler_stats.c
PROGRAMS += waylay-sampler-perf
waylay-sampler-perf_SRCS := kernels/sampler_perf.c
waylay-sampler-perf_LIBS := libkernels libcpukernels libnvtxclient
waylay-sampler-perf_LDLIBS := -lm -ldl

PROGRAMS += waylay-tbe-perf
waylay-tbe-perf_SRCS := kernels/tbe_perf.c kernels/tbe_data.c
waylay-tbe-perf_LIBS := libkernels libcpukernels libnvtxclient
waylay-tbe-perf_LDLIBS := -lm -ldl

ifdef HAVE_CMOCKA
UNIT_TESTS += test_tbe test_tbe_device
test_tbe_SRCS := tests/unit/test_tbe.c tests/unit/tbe_cases.c
test_tbe_LIBS := libkernels libcpukernels
test_tbe_LDLIBS := -lcmocka -lm -ldl
test_tbe_device_SRCS := tests/unit/test_tbe_device.c tests/unit/tbe_cases.c tests/unit/simt.c tests/unit/simt_driver.c
test_tbe_device_LIBS := libkernels libcpukernels
test_tbe_device_LDLIBS := -lcmocka -lm -ldl
UNIT_TESTS += test_sampler test_sampler_cuda test_sampler_device
test_sampler_SRCS := tests/unit/test_sampler.c
test_sampler_LIBS := libkernels libcpukernels
test_sampler_LDLIBS := -lcmocka -lm -ldl
test_sampler_cuda_SRCS := tests/unit/test_sampler_cuda.c
test_sampler_cuda_LIBS := libkernels libcpukernels
test_sampler_cuda_LDLIBS := -lcmocka -lm -ldl
test_sampler_device_SRCS := tests/unit/test_sampler_device.c tests/unit/simt.c tests/unit/simt_driver.c
test_sampler_device_LIBS := libkernels libcpukernels
test_sampler_device_LDLIBS := -lcmocka -lm -ldl
endif
