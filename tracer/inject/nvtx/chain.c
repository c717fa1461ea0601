/* SPDX-License-Identifier: Apache-2.0
 *
 * A client lets only one tool in. When another one was asked for before us, it attaches to a table of
 * ours instead, and our functions call its functions: both see every call. Handles of domains and
 * strings are then that tool's, so that whatever it hooks and we do not stays right.
 */
#include "tracer/inject/nvtx/nvtx.h"

#include <dlfcn.h>

nvtx_fn nvtx_chain_core[NVTX_SLOTS_MAX], nvtx_chain_core2[NVTX_SLOTS_MAX];
bool nvtx_chained;

static nvtx_fn *core_table[NVTX_SLOTS_MAX + 1], *core2_table[NVTX_SLOTS_MAX + 1];

/* The client that the tool is being attached to; a tool asks during its initialization. */
static __thread nvtx_get_fn client __attribute__((tls_model("initial-exec")));
static nvtx_get_fn last_client;

static nvtx_get_fn client_get(void)
{
	return client ? client : last_client;
}

static int shadow_module(int module, nvtx_fn ***table, unsigned *size)
{
	const struct nvtx_callbacks *real = client_get()(NVTX_TABLE_CALLBACKS);

	if (module != NVTX_MODULE_CORE && module != NVTX_MODULE_CORE2)
		return real ? real->module_function_table(module, table, size) : 0;
	if (table)
		*table = module == NVTX_MODULE_CORE ? core_table : core2_table;
	if (size)
		*size = module == NVTX_MODULE_CORE ? NVTX_CORE_MAX : NVTX_CORE2_MAX;
	return 1;
}

static const void *shadow_get(uint32_t table)
{
	static const struct nvtx_callbacks callbacks = {sizeof(callbacks), shadow_module};

	return table == NVTX_TABLE_CALLBACKS ? &callbacks : client_get()(table);
}

/* A function of the tool that WAYLAY_NVTX_CHAIN names; NULL without one. */
static void *tool_function(const char *name)
{
	void *lib, *function;

	if (!wl_settings.nvtx_chain || !wl_settings.nvtx_chain[0])
		return NULL;
	lib = dlopen(wl_settings.nvtx_chain, RTLD_LAZY); /* again and again: one more reference */
	function = lib ? wl_real_dlsym(lib, name) : NULL;
	if (!function)
		wl_debug("NVTX tool %s: %s %s", wl_settings.nvtx_chain,
			 lib ? "it has no" : "it cannot be loaded for", name);
	return function;
}

WL_EXPORT int InitializeInjectionNvtxExtension(void *module);

/* NVTX's extensions (payload schemas and the like) have a door of their own. We need none of them; a
 * tool behind us may. */
int InitializeInjectionNvtxExtension(void *module)
{
	int (*init)(void *) = NULL;

	if (wl_started())
		init = (int (*)(void *))tool_function("InitializeInjectionNvtxExtension");
	return init ? init(module) : 0;
}

void nvtx_chain_attach(nvtx_get_fn get)
{
	nvtx_init_fn init = (nvtx_init_fn)tool_function("InitializeInjectionNvtx2");

	if (!init)
		return;
	for (int i = 1; i < NVTX_SLOTS_MAX; i++) {
		core_table[i] = &nvtx_chain_core[i];
		core2_table[i] = &nvtx_chain_core2[i];
	}
	client = last_client = get;
	if (init(shadow_get))
		nvtx_chained = true;
	client = NULL;
}
