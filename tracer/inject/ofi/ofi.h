/* SPDX-License-Identifier: Apache-2.0
 *
 * libfabric interposition. Its data path is inline functions over tables of operations, so the
 * exported entry points are only the door: every object that comes through it gets its tables
 * hooked.
 *
 * Two ways, chosen by what providers do with their own tables:
 *  - endpoints, queues, counters, address vectors, registrations, and the `fid` operations of all:
 * the table pointer in the object is swapped for our copy of the table (ops->size bytes) with hooks
 * in it. Providers rewrite, compare and free their tables in control calls, so the originals are
 * put back around each of those and whatever is there afterwards is hooked anew.
 *  - domain->ops and fabric->ops: the provider's table itself is patched, because providers compare
 * these pointers at any time; the hooks act only on objects the job opened.
 *
 * Nothing here is ever freed: progress threads of a provider may hold a table for as long as they
 * live.
 */
#ifndef WAYLAY_TRACER_INJECT_OFI_H
#define WAYLAY_TRACER_INJECT_OFI_H

#include "tracer/inject/inject.h"

#include <errno.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#pragma GCC visibility push(hidden)

enum ofi_table_kind {
	OFI_TABLE_FID,
	OFI_TABLE_FABRIC,
	OFI_TABLE_DOMAIN,
	OFI_TABLE_MR,
	OFI_TABLE_EP,
	OFI_TABLE_CM,
	OFI_TABLE_MSG,
	OFI_TABLE_TAGGED,
	OFI_TABLE_RMA,
	OFI_TABLE_ATOMIC,
	OFI_TABLE_COLLECTIVE,
	OFI_TABLE_CQ,
	OFI_TABLE_CNTR,
	OFI_TABLE_EQ,
	OFI_TABLE_AV,
	OFI_TABLE_MAX,
};

/* One operation we replace: its place in the table and our function. */
struct ofi_slot {
	uint16_t offset;
	void (*hook)(void);
};
#define OFI_SLOT(type, field, function)                                                            \
	{                                                                                          \
		offsetof(struct type, field), (void (*)(void))(function)                           \
	}
struct ofi_slots {
	const struct ofi_slot *slots;
	unsigned count;
};
#define OFI_SLOTS(array)                                                                           \
	{                                                                                          \
		(array), sizeof(array) / sizeof((array)[0])                                        \
	}

extern const struct ofi_slots ofi_fid_slots, ofi_fabric_slots, ofi_domain_slots, ofi_mr_slots,
	ofi_ep_slots, ofi_cm_slots, ofi_msg_slots, ofi_tagged_slots, ofi_rma_slots,
	ofi_atomic_slots, ofi_collective_slots, ofi_cq_slots, ofi_cntr_slots, ofi_eq_slots,
	ofi_av_slots;

/* --- tables (table.c) ------------------------------------------------------------------------- */

/* Stands before each copy we hand out, so that one subtraction finds the original. */
struct ofi_table {
	const void *original;
	struct ofi_table *next; /* all tables, newest first */
	uint32_t bytes;
	uint8_t kind;   /* enum ofi_table_kind */
	uint8_t format; /* of a completion queue's entries (enum fi_cq_format) */
	uint16_t reserved;
	/* then: the original's content when it was copied (bytes), then the hooked copy (bytes) */
};

#define OFI_ARENA_BYTES (4u << 20)
extern uint8_t ofi_arena[OFI_ARENA_BYTES];

static inline bool ofi_is_ours(const void *ops)
{
	return (uintptr_t)ops - (uintptr_t)ofi_arena < OFI_ARENA_BYTES;
}

/* Each hooked copy is preceded by pointers to its struct ofi_table and to the original. */
static inline const struct ofi_table *ofi_table_of(const void *ops)
{
	return ofi_is_ours(ops) ? ((const struct ofi_table *const *)ops)[-2] : NULL;
}

static inline const void *ofi_original(const void *ops)
{
	return __builtin_expect(ofi_is_ours(ops), 1) ? ((const void *const *)ops)[-1] : ops;
}
/* The provider's table behind a pointer found in an object. */
#define OFI_REAL(pointer) ((__typeof__(pointer))ofi_original(pointer))

/* Swaps *slot for our copy of the table there (if it is not ours yet); NULL stays NULL. */
void ofi_table_hook(const void **slot, enum ofi_table_kind kind, uint8_t format);
/* Puts the provider's pointer back. */
static inline void ofi_table_unhook(const void **slot)
{
	*slot = ofi_original(*slot);
}

/* Patches a provider's table in place; the operations as they were are then had from ofi_patched().
 */
void ofi_table_patch(void *table, size_t bytes, enum ofi_table_kind kind);
const void *ofi_patched(const void *table);

/* --- objects (object.c) ----------------------------------------------------------------------- */

/* What must be remembered of an object the job opened. */
struct ofi_object {
	_Atomic(uintptr_t) fid; /* 0: free entry */
	uint8_t kind;           /* enum wl_ofi_kind */
	uint8_t format;         /* completion queue */
	uint8_t iface;          /* registration: enum wl_hmem_iface */
	uint8_t hmem;           /* domain: opened with FI_HMEM among its capabilities */
	_Atomic uint8_t
		unrecorded;      /* fabric that came by the second door: not used by the job yet */
	uint32_t api_version;    /* fabric, domain */
	uint32_t addr_format;    /* domain, endpoint, address vector: FI_SOCKADDR_IN, ... */
	const char *name;        /* unrecorded fabric: its provider's */
	uint64_t address, bytes; /* registration: first range, sum */
};

/* Remembers an object and hooks all its tables. Any number of times. NULL when the registry is
 * full. */
struct ofi_object *ofi_adopt(struct fid *fid, enum wl_ofi_kind kind, uint8_t format);
struct ofi_object *ofi_find(const void *fid);
void ofi_forget(const void *fid);
/* Around a control call: all pointers of the object back to the provider's, and hooked again. */
void ofi_unhook(struct fid *fid);
void ofi_rehook(struct fid *fid);
/* An endpoint was bound to a queue or counter. */
void ofi_bound(const struct fid *ep, const struct fid *queue);
/* Those can get other tables when it is bound again or enabled. */
void ofi_rehook_queues(const struct fid *ep);
/* The memory interface behind a descriptor (fi_mr_desc), system when unknown. */
void ofi_descriptor_add(const void *descriptor, enum wl_hmem_iface iface);
uint8_t ofi_descriptor_iface_slow(const void *descriptor);
extern bool ofi_any_device; /* a registration of device memory was seen */
static inline uint8_t ofi_descriptor_iface(const void *descriptor)
{
	return __builtin_expect(ofi_any_device, 0) && descriptor
		       ? ofi_descriptor_iface_slow(descriptor)
		       : WL_hmem_iface_system;
}

/* --- who calls (object.c) --------------------------------------------------------------------- */

/* Code of libfabric and its providers (the object that holds the address): a call from there is not the
 * job's. */
void ofi_text_add(const void *address);

/* From the first of them to the end of the last: most callers are outside at one look. */
extern _Atomic uintptr_t ofi_text_least, ofi_text_end;
bool ofi_in_texts(const void *caller);

static inline bool ofi_internal(const void *caller)
{
	return __builtin_expect(
		       (uintptr_t)caller >= atomic_load_explicit(&ofi_text_least,
								 memory_order_relaxed) &&
			       (uintptr_t)caller <
				       atomic_load_explicit(&ofi_text_end, memory_order_relaxed),
		       0) &&
	       ofi_in_texts(caller);
}

/* What a hook has to do with the call it is in. */
enum ofi_how {
	OFI_PASS,  /* nothing: it is not the job's */
	OFI_JOB,   /* record it: the job's own outermost call */
	OFI_LAYER, /* record it as a layered provider's (--ofi-layers), inside a call of the job's */
	OFI_LAYER_OUTERMOST, /* the same, by libfabric's own code in a thread of its own */
};

/* Not the job's outermost call: what is to be done with it (object.c). */
enum ofi_how ofi_enter_layer(bool inside);

static inline __attribute__((always_inline)) enum ofi_how ofi_enter_if(bool record,
								       const void *caller)
{
	enum ofi_how how = OFI_JOB;
	bool inside;

	if (!record)
		return OFI_PASS;
	inside = wl_is_inside(&wl_depth.ofi, WL_FRAME);
	if (__builtin_expect(inside || ofi_internal(caller), 0))
		how = ofi_enter_layer(inside);
	if (how != OFI_PASS && how != OFI_LAYER)
		wl_enter(&wl_depth.ofi, WL_FRAME);
	return how;
}
/* When it is not OFI_PASS, ofi_leave() must follow, and the record takes ofi_flags(). */
static inline __attribute__((always_inline)) enum ofi_how ofi_enter(const void *caller)
{
	return ofi_enter_if(wl_record(), caller);
}
/* Set-up: also while recording is off, since what is opened then is used later. */
static inline __attribute__((always_inline)) enum ofi_how ofi_enter_setup(const void *caller)
{
	return ofi_enter_if(wl_record_setup(), caller);
}
static inline void ofi_leave(enum ofi_how how)
{
	if (how != OFI_LAYER)
		wl_leave(&wl_depth.ofi);
}
static inline uint32_t ofi_flags(enum ofi_how how)
{
	return how == OFI_JOB ? 0 : WL_FLAG_INNER_LAYER;
}
#define OFI_ENTER()       ofi_enter(__builtin_return_address(0))
#define OFI_ENTER_SETUP() ofi_enter_setup(__builtin_return_address(0))

/* --- what several kinds of call share ---------------------------------------------------------- */

/* A call that may block (cq.c): the thread's slot names it, if it is the outermost, while it does. */
struct ofi_blocked {
	uint64_t begin;
	uint32_t api, stack;
};
struct ofi_blocked ofi_block_begin(const void *object, uint32_t api, enum ofi_how how);
void ofi_block_end(const struct ofi_blocked *blocked, const void *object, int timeout, ssize_t ret,
		   enum ofi_how how);

/* An ofi_control record that ends now (fid.c). */
void ofi_control_record(const void *object, uint32_t api, uint64_t arg, uint64_t value,
			uint64_t begin, ssize_t ret, enum ofi_how how);

/* Addresses in words, interned; 0 where they have none (address.c). bytes: that may be read. */
uint32_t ofi_address_name(uint32_t format, const void *addr, size_t bytes);
uint32_t ofi_address_names(uint32_t format, const void *addr, size_t count);
uint32_t ofi_service_name(const char *node, const char *service);

/* A call's name, interned once. */
#define OFI_NAME(text_)                                                                            \
	({                                                                                         \
		static struct wl_name name_ = {.text = (text_)};                                   \
		wl_name_id(&name_);                                                                \
	})

/* Records a fabric that came by the second door, inside the first call on it (door.c). */
void ofi_door_used(struct ofi_object *fabric, enum ofi_how how);

/* Completion queues: the empty reads this thread has counted on it are written out (cq.c). */
void ofi_poll_flush(const void *queue);

#pragma GCC visibility pop

#endif
