/* SPDX-License-Identifier: Apache-2.0
 *
 * Hooked copies of providers' tables, and patched tables. A copy is made once for each original and
 * content: tables of one provider are shared by all its objects, and an address that a provider
 * gave back and got again with other operations in it yields another copy.
 */
#include "tracer/inject/ofi/ofi.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

uint8_t ofi_arena[OFI_ARENA_BYTES] __attribute__((aligned(64)));
static _Atomic size_t arena_used;
static _Atomic(struct ofi_table *) tables;

static const struct ofi_slots *slots_of(enum ofi_table_kind kind)
{
	static const struct ofi_slots *const all[OFI_TABLE_MAX] = {
		[OFI_TABLE_FID] = &ofi_fid_slots,
		[OFI_TABLE_FABRIC] = &ofi_fabric_slots,
		[OFI_TABLE_DOMAIN] = &ofi_domain_slots,
		[OFI_TABLE_MR] = &ofi_mr_slots,
		[OFI_TABLE_EP] = &ofi_ep_slots,
		[OFI_TABLE_CM] = &ofi_cm_slots,
		[OFI_TABLE_MSG] = &ofi_msg_slots,
		[OFI_TABLE_TAGGED] = &ofi_tagged_slots,
		[OFI_TABLE_RMA] = &ofi_rma_slots,
		[OFI_TABLE_ATOMIC] = &ofi_atomic_slots,
		[OFI_TABLE_COLLECTIVE] = &ofi_collective_slots,
		[OFI_TABLE_CQ] = &ofi_cq_slots,
		[OFI_TABLE_CNTR] = &ofi_cntr_slots,
		[OFI_TABLE_EQ] = &ofi_eq_slots,
		[OFI_TABLE_AV] = &ofi_av_slots,
	};
	return all[kind];
}

/* Every table of operations begins with its own size: providers of another age have fewer or more.
 */
static size_t table_bytes(const void *ops)
{
	size_t bytes = *(const size_t *)ops;

	return bytes >= sizeof(size_t) && bytes <= 4096 && bytes % sizeof(void *) == 0 ? bytes : 0;
}

static void put_hooks(void *table, size_t bytes, const struct ofi_slots *slots)
{
	for (unsigned i = 0; i < slots->count; i++) {
		void (**slot)(void) = (void (**)(void))((char *)table + slots->slots[i].offset);

		if (slots->slots[i].offset + sizeof(*slot) <= bytes && *slot)
			*slot = slots->slots[i].hook;
	}
}

static void *arena_take(size_t bytes)
{
	size_t at = atomic_fetch_add(&arena_used, (bytes + 63) & ~(size_t)63);

	return at + bytes <= OFI_ARENA_BYTES ? ofi_arena + at : NULL;
}

static void *snapshot_of(struct ofi_table *table)
{
	return table + 1;
}

static void *copy_of(struct ofi_table *table)
{
	return (char *)(table + 1) + table->bytes + 2 * sizeof(void *);
}

static struct ofi_table *table_find(const void *original, size_t bytes, enum ofi_table_kind kind,
				    uint8_t format)
{
	/* Pairs with the release in table_make: a table on the list is whole. */
	for (struct ofi_table *t = atomic_load_explicit(&tables, memory_order_acquire); t;
	     t = t->next)
		if (t->original == original && t->kind == kind && t->format == format &&
		    t->bytes == bytes && memcmp(snapshot_of(t), original, bytes) == 0)
			return t;
	return NULL;
}

static struct ofi_table *table_make(const void *original, size_t bytes, enum ofi_table_kind kind,
				    uint8_t format)
{
	struct ofi_table *table = arena_take(sizeof(*table) + 2 * bytes + 2 * sizeof(void *));

	if (!table)
		return NULL;
	table->original = original;
	table->bytes = (uint32_t)bytes;
	table->kind = (uint8_t)kind;
	table->format = format;
	memcpy(snapshot_of(table), original, bytes);
	memcpy(copy_of(table), original, bytes);
	((struct ofi_table **)copy_of(table))[-2] = table;
	((const void **)copy_of(table))[-1] = original;
	put_hooks(copy_of(table), bytes, slots_of(kind));
	table->next = atomic_load_explicit(&tables, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&tables, &table->next, table,
						      memory_order_release, memory_order_relaxed))
		;
	return table;
}

void ofi_table_hook(const void **slot, enum ofi_table_kind kind, uint8_t format)
{
	const void *original = *slot;
	struct ofi_table *table;
	size_t bytes;

	if (!original || ofi_is_ours(original))
		return;
	bytes = table_bytes(original);
	if (!bytes)
		return;
	table = table_find(original, bytes, kind, format);
	if (!table)
		table = table_make(original, bytes, kind, format);
	if (table) /* one aligned store: other threads see the old table or the new one */
		__atomic_store_n(slot, copy_of(table), __ATOMIC_RELEASE);
}

/* --- patching in place ------------------------------------------------------------------------ */

#define PATCHES     64
#define PATCH_BYTES 256

enum patch_state { PATCH_FREE, PATCH_FILLING, PATCH_READY };

static struct ofi_patch {
	_Atomic uint32_t state; /* READY (release) once table and before can be read */
	const void *table;
	_Alignas(8) uint8_t before[PATCH_BYTES];
} patches[PATCHES];

static struct ofi_patch *patch_find(const void *table)
{
	for (unsigned i = 0; i < PATCHES; i++) {
		uint32_t state = atomic_load_explicit(&patches[i].state, memory_order_acquire);

		if (state == PATCH_READY && patches[i].table == table)
			return &patches[i];
		if (state == PATCH_FREE)
			break;
	}
	return NULL;
}

const void *ofi_patched(const void *table)
{
	const struct ofi_patch *patch = patch_find(table);

	return patch ? patch->before : table;
}

/* True if a hook of ours is in it already: another thread is patching this very table. */
static bool has_hooks(const void *table, size_t bytes, const struct ofi_slots *slots)
{
	for (unsigned i = 0; i < slots->count; i++)
		if (slots->slots[i].offset + sizeof(void *) <= bytes &&
		    memcmp((const char *)table + slots->slots[i].offset, &slots->slots[i].hook,
			   sizeof(slots->slots[i].hook)) == 0)
			return true;
	return false;
}

/* Protection of the page at an address as /proc/self/maps has it; PROT_READ if it cannot be told.
 */
static int protection_at(uintptr_t address)
{
	static const char path[] = "/proc/self/maps";
	char line[512];
	int protection = PROT_READ;
	FILE *maps = fopen(path, "re");

	if (!maps)
		return protection;
	while (fgets(line, sizeof(line), maps)) {
		char *end;
		uintptr_t from = strtoul(line, &end, 16);
		uintptr_t to = *end == '-' ? strtoul(end + 1, &end, 16) : 0;

		if (address < from || address >= to)
			continue;
		protection = PROT_READ | (end[2] == 'w' ? PROT_WRITE : 0) |
			     (end[3] == 'x' ? PROT_EXEC : 0);
		break;
	}
	(void)fclose(maps);
	return protection;
}

static void hooks_into(void *table, size_t bytes, const struct ofi_slots *slots)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)table & ~(page - 1);
	size_t span = (((uintptr_t)table + bytes + page - 1) & ~(page - 1)) - from;
	int before = protection_at((uintptr_t)table);

	if (!(before & PROT_WRITE) && mprotect((void *)from, span, before | PROT_WRITE) != 0) {
		wl_debug(
			"libfabric: a provider's table cannot be made writable; it stays untraced");
		return;
	}
	put_hooks(table, bytes, slots);
	if (!(before & PROT_WRITE))
		(void)mprotect((void *)from, span, before);
}

/* Two threads may meet here with one table: both then keep a clean copy of it and write the same
 * hooks, or the later one sees hooks and leaves it to the earlier one. Nobody waits. */
void ofi_table_patch(void *table, size_t bytes, enum ofi_table_kind kind)
{
	size_t own = table ? table_bytes(table) : 0;
	const struct ofi_slots *slots = slots_of(kind);
	struct ofi_patch *known;

	if (own < bytes)
		bytes = own;
	if (!bytes || bytes > PATCH_BYTES)
		return;
	known = patch_find(table);
	if (known) {
		/* A provider that makes a table for each object got the place of an older one again:
		 * nobody else uses it yet. */
		if (!has_hooks(table, bytes, slots)) {
			memcpy(known->before, table, bytes);
			hooks_into(table, bytes, slots);
		}
		return;
	}
	for (unsigned i = 0; i < PATCHES; i++) {
		uint32_t expected = PATCH_FREE;

		if (!atomic_compare_exchange_strong(&patches[i].state, &expected, PATCH_FILLING))
			continue;
		memcpy(patches[i].before, table, bytes);
		patches[i].table = has_hooks(patches[i].before, bytes, slots) ? NULL : table;
		atomic_store_explicit(&patches[i].state, PATCH_READY, memory_order_release);
		if (patches[i].table)
			hooks_into(table, bytes, slots);
		return;
	}
}
