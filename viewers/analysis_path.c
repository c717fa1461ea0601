/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether device memory goes to the network directly, or is staged through the host and why: by what the job
 * asked libfabric for, what it was offered, what it opened, set and registered.
 */
#include "viewers/analysis_internal.h"

#include <stdio.h>
#include <string.h>

/* libfabric's bits and numbers, which are part of its binary interface. */
#define CAP_HMEM               (1ull << 47)
#define OPT_CUDA_API_PERMITTED 10

void path_event(struct path_facts *facts, struct model *model, unsigned process,
		const struct trace_event *event)
{
	const char *name;
	int32_t status;

	switch (event->type->number) {
	case WL_EV_ofi_getinfo:
		facts->wanted |= (MODEL_ARG(event, ofi_getinfo, wanted_caps) & CAP_HMEM) != 0;
		facts->offered |= MODEL_ARG(event, ofi_getinfo, with_hmem) != 0;
		if (MODEL_ARG(event, ofi_getinfo, wanted_caps) & CAP_HMEM &&
		    !MODEL_ARG(event, ofi_getinfo, with_hmem))
			facts->offer_status = (int32_t)MODEL_ARG(event, ofi_getinfo, status);
		break;
	case WL_EV_ofi_open:
		/* What getinfo could have given says little: what was opened does. */
		if ((MODEL_ARG(event, ofi_open, kind) != WL_ofi_kind_domain &&
		     MODEL_ARG(event, ofi_open, kind) != WL_ofi_kind_ep) ||
		    (int64_t)MODEL_ARG(event, ofi_open, status) != 0)
			break;
		facts->opened = true;
		facts->opened_hmem |= (MODEL_ARG(event, ofi_open, caps) & CAP_HMEM) != 0;
		name = model_string(model, process, (uint32_t)MODEL_ARG(event, ofi_open, name));
		if (*name && !*facts->provider)
			(void)snprintf(facts->provider, sizeof(facts->provider), "%s", name);
		break;
	case WL_EV_ofi_control:
		name = model_string(model, process, (uint32_t)MODEL_ARG(event, ofi_control, api));
		if (MODEL_ARG(event, ofi_control, arg) == OPT_CUDA_API_PERMITTED &&
		    (int64_t)MODEL_ARG(event, ofi_control, status) < 0 &&
		    strcmp(name, "fi_setopt") == 0)
			facts->permit_status = (int32_t)MODEL_ARG(event, ofi_control, status);
		break;
	case WL_EV_ofi_mr_reg:
		status = (int32_t)MODEL_ARG(event, ofi_mr_reg, status);
		if (MODEL_ARG(event, ofi_mr_reg, iface) == WL_hmem_iface_system)
			break;
		if (status != 0) {
			facts->refused++;
			facts->refused_status = status;
			break;
		}
		facts->registered++;
		facts->registered_dmabuf += (int64_t)MODEL_ARG(event, ofi_mr_reg, fd) >= 0;
		break;
	default:
		break;
	}
}

static void used(const struct path_facts *facts, const char *provider, char *why, size_t size)
{
	char dmabuf[64] = "", refused[64] = "";

	if (facts->registered_dmabuf)
		(void)snprintf(dmabuf, sizeof(dmabuf), " (%llu by DMA-BUF)",
			       (unsigned long long)facts->registered_dmabuf);
	if (facts->refused)
		(void)snprintf(refused, sizeof(refused), "; it refused %llu (%s)",
			       (unsigned long long)facts->refused,
			       strerror(-facts->refused_status));
	(void)snprintf(why, size,
		       "Device memory goes directly: %s took %llu registration%s of it%s%s",
		       provider, (unsigned long long)facts->registered,
		       facts->registered == 1 ? "" : "s", dmabuf, refused);
}

#define STAGED "Device memory is staged through the host, because "

static void not_offered(const struct path_facts *facts, const char *provider, char *why,
			size_t size)
{
	if (facts->wanted && !facts->offered)
		(void)snprintf(why, size,
			       STAGED "no provider here has FI_HMEM, which was asked for (%s); "
				      "%s was opened without it",
			       facts->offer_status ? strerror(-facts->offer_status)
						   : "none offered",
			       provider);
	else if (facts->wanted)
		(void)snprintf(why, size,
			       STAGED "%s was opened without FI_HMEM, though a provider offered it",
			       provider);
	else
		(void)snprintf(why, size,
			       STAGED "%s was opened without FI_HMEM; the job did not ask for it",
			       provider);
}

enum direct_path path_verdict(const struct path_facts *facts, char *why, size_t size)
{
	const char *provider = *facts->provider ? facts->provider : "the provider";

	if (facts->registered) {
		used(facts, provider, why, size);
		return DIRECT_USED;
	}
	if (facts->refused) {
		(void)snprintf(why, size, STAGED "%s refused to register it (status %d: %s)",
			       provider, facts->refused_status, strerror(-facts->refused_status));
		return DIRECT_REFUSED;
	}
	if (facts->opened_hmem) {
		if (facts->permit_status)
			(void)snprintf(why, size,
				       STAGED "%s will not promise to leave CUDA alone "
					      "(fi_setopt FI_OPT_CUDA_API_PERMITTED: %s), without "
					      "which plugins such as NCCL's do not register it",
				       provider, strerror(-facts->permit_status));
		else
			(void)snprintf(why, size,
				       STAGED "none was registered, though %s was opened with "
					      "FI_HMEM",
				       provider);
		return DIRECT_UNUSED;
	}
	if (!facts->opened)
		return DIRECT_UNKNOWN;
	not_offered(facts, provider, why, size);
	return DIRECT_NOT_OFFERED;
}
