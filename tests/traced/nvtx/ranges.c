/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes NVTX calls of every kind, some before and some after it touches CUDA. Built twice: with the
 * project's own small client, and with NVIDIA's header where there is one.
 *
 *   nvtx_ranges [--no-cuda]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef NVIDIA_HEADER
#include <nvtx3/nvToolsExt.h>

static void push(const char *name)
{
	nvtxRangePushA(name);
}
static void pop(void)
{
	nvtxRangePop();
}
static void mark(const char *name)
{
	nvtxMarkA(name);
}
static uint64_t start(const char *name)
{
	return nvtxRangeStartA(name);
}
static void end(uint64_t id)
{
	nvtxRangeEnd(id);
}
static void name_thread(const char *name)
{
	nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), name);
}
static void domain_calls(void)
{
	nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
	nvtxStringHandle_t text = nvtxDomainRegisterStringA(domain, "registered");
	nvtxEventAttributes_t a = {0};

	a.version = NVTX_VERSION;
	a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = text;
	a.colorType = NVTX_COLOR_ARGB;
	a.color = 0xff00ff00;
	a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
	a.payload.ullValue = 4711;
	a.category = 7;
	nvtxDomainNameCategoryA(domain, 7, "phase");
	nvtxDomainRangePushEx(domain, &a);
	a.category = 8;
	nvtxDomainMarkEx(domain, &a);
	nvtxDomainRangePop(domain);
	nvtxDomainDestroy(domain);
}
static void wide_calls(void)
{
	nvtxDomainHandle_t domain = nvtxDomainCreateW(L"weite Dom\u00e4ne");
	nvtxEventAttributes_t a = {0};

	nvtxRangePushW(L"\u0448\u0438\u0440\u043e\u043a\u0438\u0439 \U0001f600");
	nvtxRangePop();
	a.version = NVTX_VERSION;
	a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	a.messageType = NVTX_MESSAGE_TYPE_UNICODE;
	a.message.unicode = L"wide message";
	a.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
	a.payload.dValue = 0.5;
	nvtxDomainRangePushEx(domain, &a);
	nvtxDomainRangePop(domain);
}
#else
#include "kernels/nvtx/nvtx.h"

static void push(const char *name)
{
	nvtx_push(name);
}
static void pop(void)
{
	nvtx_pop();
}
static void mark(const char *name)
{
	nvtx_mark(name);
}
static uint64_t start(const char *name)
{
	return nvtx_start(name);
}
static void end(uint64_t id)
{
	nvtx_end(id);
}
static void name_thread(const char *name)
{
	nvtx_name_thread((uint32_t)syscall(SYS_gettid), name);
}
static void domain_calls(void)
{
	struct nvtx_domain *domain = nvtx_domain_create("library");
	struct nvtx_string *text = nvtx_domain_string(domain, "registered");
	struct nvtx_event event = NVTX_EVENT(NULL);

	event.message_type = NVTX_MESSAGE_REGISTERED;
	event.message.registered = text;
	event.color_type = NVTX_COLOR_IS_ARGB;
	event.color = 0xff00ff00;
	event.payload_type = NVTX_PAYLOAD_U64;
	event.payload.u64 = 4711;
	event.category = 8;
	nvtx_domain_push_event(domain, &event);
	nvtx_domain_mark(domain, text);
	nvtx_domain_pop(domain);
	nvtx_domain_destroy(domain);
}
static void wide_calls(void)
{
}
#endif

static int cuda_start(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned) = lib ? (int (*)(unsigned))dlsym(lib, "cuInit") : NULL;

	return init ? init(0) : -1;
}

static void *other_thread(void *range)
{
	name_thread("worker of nvtx_ranges");
	push("on a thread");
	pop();
	end(*(uint64_t *)range);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	uint64_t range;

	name_thread("named early");
	push("before");
	push("before too");
	if (!(argc > 1 && !strcmp(argv[1], "--no-cuda")) && cuda_start()) {
		printf("no CUDA driver\n");
		return 1;
	}
	pop();
	push("after");
	mark("mark");
	pop();
	pop();
	pop(); /* one too many */
	range = start("crossing");
	pthread_create(&thread, NULL, other_thread, &range);
	pthread_join(thread, NULL);
	domain_calls();
	wide_calls();
	push("never closed");
	printf("done\n");
	return 0;
}
