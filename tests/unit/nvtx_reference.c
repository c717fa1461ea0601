/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of test_nvtx_client through NVIDIA's own headers, and our event's layout against
 * theirs. */
#ifdef HAVE_NVTX3
#include <nvtx3/nvToolsExt.h>

#include "kernels/nvtx/nvtx.h"

#define SAME_PLACE(ours, theirs)                                                                   \
	_Static_assert(offsetof(struct nvtx_event, ours) ==                                        \
			       offsetof(nvtxEventAttributes_t, theirs),                            \
		       #ours)
SAME_PLACE(version, version);
SAME_PLACE(size, size);
SAME_PLACE(category, category);
SAME_PLACE(color_type, colorType);
SAME_PLACE(color, color);
SAME_PLACE(payload_type, payloadType);
SAME_PLACE(payload, payload);
SAME_PLACE(message_type, messageType);
SAME_PLACE(message, message);
_Static_assert(sizeof(struct nvtx_event) == sizeof(nvtxEventAttributes_t), "size");
_Static_assert(NVTX_EVENT_VERSION == NVTX_VERSION, "version");
_Static_assert((int)NVTX_PAYLOAD_U64 == NVTX_PAYLOAD_TYPE_UNSIGNED_INT64, "payload");
_Static_assert((int)NVTX_PAYLOAD_I64 == NVTX_PAYLOAD_TYPE_INT64, "payload");
_Static_assert((int)NVTX_PAYLOAD_F64 == NVTX_PAYLOAD_TYPE_DOUBLE, "payload");
_Static_assert((int)NVTX_PAYLOAD_U32 == NVTX_PAYLOAD_TYPE_UNSIGNED_INT32, "payload");
_Static_assert((int)NVTX_PAYLOAD_I32 == NVTX_PAYLOAD_TYPE_INT32, "payload");
_Static_assert((int)NVTX_PAYLOAD_F32 == NVTX_PAYLOAD_TYPE_FLOAT, "payload");
_Static_assert((int)NVTX_MESSAGE_ASCII == NVTX_MESSAGE_TYPE_ASCII, "message");
_Static_assert((int)NVTX_MESSAGE_REGISTERED == NVTX_MESSAGE_TYPE_REGISTERED, "message");
_Static_assert(NVTX_NO_NESTING == NVTX_NO_PUSH_POP_TRACKING, "no nesting");

void nvtx_reference_calls(void);
void nvtx_reference_calls(void)
{
	nvtxEventAttributes_t event = {0};
	nvtxDomainHandle_t domain;

	nvtxRangePushA("outer");
	event.version = NVTX_VERSION;
	event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	event.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
	event.payload.ullValue = 17;
	event.messageType = NVTX_MESSAGE_TYPE_ASCII;
	event.message.ascii = "inner";
	nvtxRangePushEx(&event);
	nvtxRangePop();
	nvtxRangePop();
	nvtxMarkA("here");
	nvtxRangeEnd(nvtxRangeStartA("crossing"));
	nvtxNameOsThreadA(99, "worker");
	domain = nvtxDomainCreateA("lib");
	event.payloadType = NVTX_PAYLOAD_UNKNOWN;
	event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	event.message.registered = nvtxDomainRegisterStringA(domain, "text");
	nvtxDomainRangePushEx(domain, &event);
	nvtxDomainRangePop(domain);
	nvtxDomainMarkEx(domain, &event);
	nvtxDomainDestroy(domain);
}
#else
typedef int nvtx_reference_needs_nvidias_headers;
#endif
