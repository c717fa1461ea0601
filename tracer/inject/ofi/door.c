/* SPDX-License-Identifier: Apache-2.0
 *
 * The second door: this library as an external hook provider. libfabric finds it as
 * "waylay-fi.so" in FI_PROVIDER_PATH and, where FI_HOOK names it, hands every fabric that it opens
 * to door_fabric(). That needs no symbol of ours to be found first: it works where libfabric is
 * part of the program, or was loaded by an object that looks at its own symbols before all others.
 */
#include "tracer/inject/ofi/ofi.h"

#include <rdma/providers/fi_prov.h>

/* Fabrics opened inside a call that the first door sees are adopted there. Otherwise it cannot be
 * told yet whether the job opens this one or a layered provider does, so it is recorded when the
 * job first uses it (ofi_door_used). */
static int door_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	const struct fi_provider *provider = context;
	const char *name = provider && provider->name ? provider->name : NULL;
	struct ofi_object *object;

	*fabric = attr->fabric;
	ofi_text_add(__builtin_return_address(0));
	if (!wl_started() || !wl_settings.ofi || wl_is_inside(&wl_depth.ofi, WL_FRAME))
		return 0;
	wl_recording_begin("ofi");
	if (!wl_record_setup())
		return 0;
	object = ofi_adopt(&(*fabric)->fid, WL_ofi_kind_fabric, 0);
	ofi_text_add(
		(const void *)((const struct fi_ops_fabric *)ofi_patched((*fabric)->ops))->domain);
	ofi_table_patch((*fabric)->ops, sizeof(*(*fabric)->ops), OFI_TABLE_FABRIC);
	if (!object)
		return 0;
	object->api_version = (*fabric)->api_version;
	object->name = name;
	object->unrecorded = 1;
	return 0;
}

void ofi_door_used(struct ofi_object *object, enum ofi_how how)
{
	uint64_t now = spool_now();

	/* Threads may meet here at its first use. */
	if (!atomic_exchange(&object->unrecorded, 0))
		return;
	SPOOL_EMIT(ofi_open, now, now, ofi_flags(how), .object = object->fid,
		   .api = OFI_NAME("fi_fabric"),
		   .name = object->name ? spool_intern_string(object->name, strlen(object->name))
					: 0,
		   .kind = WL_ofi_kind_fabric);
}

static void door_cleanup(void)
{
}

/* libfabric keeps its own state in what it is given, so two libfabrics in one process each get one. */
#define DOORS 8

WL_EXPORT struct fi_provider *fi_prov_ini(void);
struct fi_provider *fi_prov_ini(void)
{
	static struct fi_provider doors[DOORS];
	static _Atomic unsigned opened;
	unsigned at = atomic_fetch_add(&opened, 1);

	if (at >= DOORS)
		return NULL;
	/* Without getinfo libfabric takes it for a hook. */
	doors[at] = (struct fi_provider){.version = FI_VERSION(1, 0),
					 .fi_version = FI_VERSION(1, 8),
					 .name = "waylay",
					 .fabric = door_fabric,
					 .cleanup = door_cleanup};
	return &doors[at];
}
