/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters.
 */
#include "tracer/inject/ofi/ofi.h"

/* Only a changed value is recorded: jobs poll counters as they poll queues. */
static __thread struct {
	const void *counter;
	uint64_t value;
} last_counter __attribute__((tls_model("initial-exec")));

static void counter_record(const void *cntr, uint64_t value, uint32_t api, int status,
			   enum ofi_how how)
{
	uint64_t now = spool_now();

	SPOOL_EMIT(ofi_counter, now, now, ofi_flags(how), .cntr = (uintptr_t)cntr, .value = value,
		   .api = api, .status = status);
}

static void counter_seen(const void *cntr, uint64_t value, uint32_t api, enum ofi_how how)
{
	if (last_counter.counter == cntr && last_counter.value == value)
		return;
	last_counter.counter = cntr;
	last_counter.value = value;
	counter_record(cntr, value, api, 0, how);
}

static uint64_t hook_read(struct fid_cntr *cntr)
{
	struct fi_ops_cntr *real = OFI_REAL(cntr->ops);
	enum ofi_how how = OFI_ENTER();
	uint64_t value;

	if (!how)
		return real->read(cntr);
	value = real->read(cntr);
	ofi_leave(how);
	counter_seen(cntr, value, OFI_NAME("fi_cntr_read"), how);
	return value;
}

/* The number of failed operations: told when it is one. */
static uint64_t hook_readerr(struct fid_cntr *cntr)
{
	struct fi_ops_cntr *real = OFI_REAL(cntr->ops);
	enum ofi_how how = OFI_ENTER();
	uint64_t value;

	if (!how)
		return real->readerr(cntr);
	value = real->readerr(cntr);
	ofi_leave(how);
	if (value)
		counter_record(cntr, value, OFI_NAME("fi_cntr_readerr"), 0, how);
	return value;
}

/* The job itself moves the counter. */
#define CHANGE(operation, api_)                                                                    \
	static int hook_##operation(struct fid_cntr *cntr, uint64_t value)                         \
	{                                                                                          \
		struct fi_ops_cntr *real = OFI_REAL(cntr->ops);                                    \
		enum ofi_how how = OFI_ENTER();                                                    \
		int ret;                                                                           \
                                                                                                   \
		if (!how)                                                                          \
			return real->operation(cntr, value);                                       \
		ret = real->operation(cntr, value);                                                \
		ofi_leave(how);                                                                    \
		counter_record(cntr, value, OFI_NAME(api_), ret, how);                             \
		return ret;                                                                        \
	}
CHANGE(add, "fi_cntr_add")
CHANGE(adderr, "fi_cntr_adderr")
CHANGE(set, "fi_cntr_set")
CHANGE(seterr, "fi_cntr_seterr")

static int hook_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
{
	struct fi_ops_cntr *real = OFI_REAL(cntr->ops);
	enum ofi_how how = OFI_ENTER();
	struct ofi_blocked blocked;
	int ret;

	if (!how)
		return real->wait(cntr, threshold, timeout);
	blocked = ofi_block_begin(cntr, OFI_NAME("fi_cntr_wait"), how);
	ret = real->wait(cntr, threshold, timeout);
	ofi_leave(how);
	ofi_block_end(&blocked, cntr, timeout, ret, how);
	if (ret == 0)
		counter_seen(cntr, threshold, OFI_NAME("fi_cntr_wait"), how);
	return ret;
}

static const struct ofi_slot slots[] = {
	OFI_SLOT(fi_ops_cntr, read, hook_read), OFI_SLOT(fi_ops_cntr, readerr, hook_readerr),
	OFI_SLOT(fi_ops_cntr, add, hook_add),   OFI_SLOT(fi_ops_cntr, adderr, hook_adderr),
	OFI_SLOT(fi_ops_cntr, set, hook_set),   OFI_SLOT(fi_ops_cntr, seterr, hook_seterr),
	OFI_SLOT(fi_ops_cntr, wait, hook_wait),
};
const struct ofi_slots ofi_cntr_slots = OFI_SLOTS(slots);
