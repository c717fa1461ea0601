/* SPDX-License-Identifier: Apache-2.0
 *
 * The objects the job opened, what must be remembered of each, and whose code calls us.
 */
#include "tracer/inject/ofi/ofi.h"

#include <link.h>

/* --- registry --------------------------------------------------------------------------------- */

#define OBJECTS 65536u /* a power of two */
#define WINDOW  32u    /* an object lies within so many entries of its hash */

static struct ofi_object objects[OBJECTS];

static unsigned home_of(uintptr_t fid)
{
	return (unsigned)((fid >> 4) * 0x9e3779b97f4a7c15u >> 48) & (OBJECTS - 1);
}

/*
 * Which queues and counters an endpoint was bound to: they can get other tables when it is bound again or
 * enabled. Only those are looked at, since they cannot be closed meanwhile; any other may be, by another
 * thread. Past the last entry one is merely not looked at again.
 */
#define BINDINGS     8192u
#define BINDING_BUSY 1u
static struct {
	_Atomic uintptr_t ep; /* 0 free, BINDING_BUSY, or (release) the endpoint of `queue` */
	uintptr_t queue;
} bindings[BINDINGS];
static _Atomic unsigned bindings_used; /* none is at or past this */

void ofi_bound(const struct fid *ep, const struct fid *queue)
{
	unsigned used;

	for (unsigned i = 0; i < BINDINGS; i++) {
		uintptr_t expected = 0;

		if (!atomic_compare_exchange_strong(&bindings[i].ep, &expected, BINDING_BUSY))
			continue;
		bindings[i].queue = (uintptr_t)queue;
		atomic_store_explicit(&bindings[i].ep, (uintptr_t)ep, memory_order_release);
		used = atomic_load(&bindings_used);
		while (used < i + 1 && !atomic_compare_exchange_weak(&bindings_used, &used, i + 1))
			;
		return;
	}
}

static void bindings_forget(const void *ep)
{
	unsigned used = atomic_load(&bindings_used);

	for (unsigned i = 0; i < used; i++) {
		uintptr_t expected = (uintptr_t)ep;

		(void)atomic_compare_exchange_strong(&bindings[i].ep, &expected, 0);
	}
}

struct ofi_object *ofi_find(const void *fid)
{
	unsigned home = home_of((uintptr_t)fid);

	for (unsigned i = 0; i < WINDOW; i++) {
		struct ofi_object *object = &objects[(home + i) & (OBJECTS - 1)];

		/* Pairs with the release in object_make: its fields are there. */
		if (atomic_load_explicit(&object->fid, memory_order_acquire) == (uintptr_t)fid)
			return object;
	}
	return NULL;
}

static struct ofi_object *object_make(const void *fid)
{
	unsigned home = home_of((uintptr_t)fid);

	for (unsigned i = 0; i < WINDOW; i++) {
		struct ofi_object *object = &objects[(home + i) & (OBJECTS - 1)];
		uintptr_t expected = 0;

		if (atomic_compare_exchange_strong_explicit(&object->fid, &expected, (uintptr_t)fid,
							    memory_order_acq_rel,
							    memory_order_relaxed))
			return object;
	}
	return NULL;
}

void ofi_forget(const void *fid)
{
	struct ofi_object *object = ofi_find(fid);

	if (!object)
		return;
	if (object->kind != WL_ofi_kind_mr)
		bindings_forget(fid);
	object->kind = 0;
	object->format = object->iface = object->hmem = 0;
	atomic_store_explicit(&object->unrecorded, 0, memory_order_relaxed);
	object->address = object->bytes = 0;
	object->addr_format = 0;
	atomic_store_explicit(&object->fid, 0, memory_order_release);
}

/* --- hooking all tables of an object ---------------------------------------------------------- */

#define HOOK(field, kind) ofi_table_hook((const void **)&(field), (kind), 0)
#define UNHOOK(field)     ofi_table_unhook((const void **)&(field))

static bool is_endpoint(size_t fclass)
{
	return fclass == FI_CLASS_EP || fclass == FI_CLASS_SEP || fclass == FI_CLASS_TX_CTX ||
	       fclass == FI_CLASS_RX_CTX || fclass == FI_CLASS_SRX_CTX;
}

static void endpoint_hook(struct fid_ep *ep)
{
	HOOK(ep->ops, OFI_TABLE_EP);
	HOOK(ep->cm, OFI_TABLE_CM);
	HOOK(ep->msg, OFI_TABLE_MSG);
	HOOK(ep->rma, OFI_TABLE_RMA);
	HOOK(ep->tagged, OFI_TABLE_TAGGED);
	HOOK(ep->atomic, OFI_TABLE_ATOMIC);
	HOOK(ep->collective, OFI_TABLE_COLLECTIVE);
}

static void endpoint_unhook(struct fid_ep *ep)
{
	UNHOOK(ep->ops);
	UNHOOK(ep->cm);
	UNHOOK(ep->msg);
	UNHOOK(ep->rma);
	UNHOOK(ep->tagged);
	UNHOOK(ep->atomic);
	UNHOOK(ep->collective);
}

static void queue_hook(struct fid *fid, uint8_t format)
{
	if (fid->fclass == FI_CLASS_CQ)
		ofi_table_hook((const void **)&((struct fid_cq *)fid)->ops, OFI_TABLE_CQ, format);
	else if (fid->fclass == FI_CLASS_CNTR)
		HOOK(((struct fid_cntr *)fid)->ops, OFI_TABLE_CNTR);
}

void ofi_rehook(struct fid *fid)
{
	const struct ofi_object *object = ofi_find(fid);

	HOOK(fid->ops, OFI_TABLE_FID);
	if (is_endpoint(fid->fclass))
		endpoint_hook((struct fid_ep *)fid);
	else if (fid->fclass == FI_CLASS_PEP) {
		HOOK(((struct fid_pep *)fid)->ops, OFI_TABLE_EP);
		HOOK(((struct fid_pep *)fid)->cm, OFI_TABLE_CM);
	} else if (fid->fclass == FI_CLASS_EQ)
		HOOK(((struct fid_eq *)fid)->ops, OFI_TABLE_EQ);
	else if (fid->fclass == FI_CLASS_AV)
		HOOK(((struct fid_av *)fid)->ops, OFI_TABLE_AV);
	else if (fid->fclass == FI_CLASS_DOMAIN)
		HOOK(((struct fid_domain *)fid)->mr, OFI_TABLE_MR);
	else
		queue_hook(fid, object ? object->format : 0);
}

void ofi_unhook(struct fid *fid)
{
	UNHOOK(fid->ops);
	if (is_endpoint(fid->fclass))
		endpoint_unhook((struct fid_ep *)fid);
	else if (fid->fclass == FI_CLASS_PEP) {
		UNHOOK(((struct fid_pep *)fid)->ops);
		UNHOOK(((struct fid_pep *)fid)->cm);
	} else if (fid->fclass == FI_CLASS_EQ)
		UNHOOK(((struct fid_eq *)fid)->ops);
	else if (fid->fclass == FI_CLASS_AV)
		UNHOOK(((struct fid_av *)fid)->ops);
	else if (fid->fclass == FI_CLASS_DOMAIN)
		UNHOOK(((struct fid_domain *)fid)->mr);
	else if (fid->fclass == FI_CLASS_CQ)
		UNHOOK(((struct fid_cq *)fid)->ops);
	else if (fid->fclass == FI_CLASS_CNTR)
		UNHOOK(((struct fid_cntr *)fid)->ops);
}

void ofi_rehook_queues(const struct fid *ep)
{
	unsigned used = atomic_load(&bindings_used);

	for (unsigned i = 0; i < used; i++) {
		const struct ofi_object *object;

		if (atomic_load_explicit(&bindings[i].ep, memory_order_acquire) != (uintptr_t)ep)
			continue;
		object = ofi_find((const void *)bindings[i].queue);
		if (object)
			queue_hook((struct fid *)bindings[i].queue, object->format);
	}
}

struct ofi_object *ofi_adopt(struct fid *fid, enum wl_ofi_kind kind, uint8_t format)
{
	struct ofi_object *object = ofi_find(fid);

	if (!object)
		object = object_make(fid);
	if (object) {
		object->kind = (uint8_t)kind;
		object->format = format;
	}
	ofi_rehook(fid);
	return object;
}

/* --- descriptors of device memory ------------------------------------------------------------- */

#define DESCRIPTORS 8192u

bool ofi_any_device;
static struct {
	_Atomic(const void *) descriptor;
	uint8_t iface;
} descriptors[DESCRIPTORS];

static unsigned descriptor_home(const void *descriptor)
{
	return (unsigned)(((uintptr_t)descriptor >> 4) * 0x9e3779b97f4a7c15u >> 51) &
	       (DESCRIPTORS - 1);
}

void ofi_descriptor_add(const void *descriptor, enum wl_hmem_iface iface)
{
	unsigned home = descriptor_home(descriptor);

	/* Host memory matters only where its descriptor was a device region's before. */
	if (!descriptor || (iface == WL_hmem_iface_system && !ofi_any_device))
		return;
	for (unsigned i = 0; i < WINDOW; i++) {
		unsigned at = (home + i) & (DESCRIPTORS - 1);
		const void *expected = NULL;

		if (atomic_load_explicit(&descriptors[at].descriptor, memory_order_acquire) ==
			    descriptor ||
		    atomic_compare_exchange_strong(&descriptors[at].descriptor, &expected,
						   descriptor)) {
			descriptors[at].iface = (uint8_t)iface;
			if (iface != WL_hmem_iface_system)
				ofi_any_device = true;
			return;
		}
	}
}

uint8_t ofi_descriptor_iface_slow(const void *descriptor)
{
	unsigned home = descriptor_home(descriptor);

	for (unsigned i = 0; i < WINDOW; i++) {
		unsigned at = (home + i) & (DESCRIPTORS - 1);
		const void *there =
			atomic_load_explicit(&descriptors[at].descriptor, memory_order_acquire);

		if (there == descriptor)
			return descriptors[at].iface;
		if (!there)
			break;
	}
	return WL_hmem_iface_system;
}

/* --- libfabric's own code --------------------------------------------------------------------- */

#define TEXTS 16
struct text {
	uintptr_t start, bytes;
};
static struct text texts[TEXTS];
static _Atomic unsigned text_count;
_Atomic uintptr_t ofi_text_least = UINTPTR_MAX, ofi_text_end;

bool ofi_in_texts(const void *caller)
{
	unsigned count = atomic_load_explicit(&text_count, memory_order_acquire);

	for (unsigned i = 0; i < count; i++)
		if ((uintptr_t)caller - texts[i].start < texts[i].bytes)
			return true;
	return false;
}

enum ofi_how ofi_enter_layer(bool inside)
{
	if (!wl_settings.ofi_layers)
		return OFI_PASS;
	return inside ? OFI_LAYER : OFI_LAYER_OUTERMOST;
}

struct text_search {
	uintptr_t address;
	struct text found;
};

/* libfabric itself, or a provider in an object of its own. Where libfabric is part of the program or
 * of a plugin, its code cannot be told from the job's by address, and the depth of calls must do. */
static bool is_libfabric(const char *path)
{
	const char *base = strrchr(path, '/');
	size_t length;

	base = base ? base + 1 : path;
	length = strlen(base);
	return strncmp(base, "libfabric", 9) == 0 ||
	       (length > 6 && strcmp(base + length - 6, "-fi.so") == 0);
}

static int text_visit(struct dl_phdr_info *info, size_t size, void *data)
{
	struct text_search *search = data;

	(void)size;
	if (!info->dlpi_name || !is_libfabric(info->dlpi_name))
		return 0;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) &&
		    search->address - start < segment->p_memsz) {
			search->found = (struct text){start, segment->p_memsz};
			return 1;
		}
	}
	return 0;
}

void ofi_text_add(const void *address)
{
	static _Atomic unsigned claimed;
	struct text_search search = {.address = (uintptr_t)address};
	uintptr_t bound, end;
	unsigned at, count;

	if (ofi_internal(address) || !dl_iterate_phdr(text_visit, &search))
		return;
	at = atomic_fetch_add(&claimed, 1);
	if (at >= TEXTS)
		return;
	texts[at] = search.found;
	/* An entry before it that another thread has yet to fill matches nothing (bytes 0). */
	count = atomic_load(&text_count);
	while (count < at + 1 && !atomic_compare_exchange_weak(&text_count, &count, at + 1))
		;
	bound = atomic_load(&ofi_text_least);
	while (search.found.start < bound &&
	       !atomic_compare_exchange_weak(&ofi_text_least, &bound, search.found.start))
		;
	end = search.found.start + search.found.bytes;
	bound = atomic_load(&ofi_text_end);
	while (end > bound && !atomic_compare_exchange_weak(&ofi_text_end, &bound, end))
		;
}
