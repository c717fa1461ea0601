/* SPDX-License-Identifier: Apache-2.0 */
/* The FAKECUDA_ variables, and the faults that FAKECUDA_FAIL injects. */
#include "tests/fakecuda/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fc_settings fc_settings = {
	.driver_version = 13000,
	.devices = 1,
	.mem_bytes = (size_t)16 << 30,
	.queue_depth = 1024,
	.valid = true,
};

enum { FAULTS_MAX = 16 };
struct fault {
	unsigned long nth; /* 0: every call */
	_Atomic unsigned long calls;
	enum fc_entry id;
	CUresult code;
};
static struct fault faults[FAULTS_MAX];
static unsigned fault_count;

const char *const fc_entry_names[FC_ENTRY_MAX] = {
#define FC_NAME(sym, base, since, impl, params, args)  #sym,
#define FC_EARLY(sym, base, since, impl, params, args) #sym,
#define FC_PLAIN                                       FC_NAME
#define FC_PTDS                                        FC_NAME
#define FC_PTSZ                                        FC_NAME
#include "tests/fakecuda/entries.def"
};

static void complain(const char *name, const char *value, const char *want)
{
	fprintf(stderr, "fakecuda: %s=%s is not understood; give %s, or unset it\n", name, value,
		want);
	fc_settings.valid = false;
}

static uint64_t number(const char *name, uint64_t def, uint64_t least, uint64_t most)
{
	const char *text = getenv(name);
	if (!text)
		return def;
	char *end;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || v < least || v > most) {
		char want[64];
		snprintf(want, sizeof(want), "a number from %llu to %llu",
			 (unsigned long long)least, (unsigned long long)most);
		complain(name, text, want);
		return def;
	}
	return v;
}

static bool fault_parse(char *text)
{
	char *name = text, *nth = strchr(text, ':'), *code = nth ? strchr(nth + 1, ':') : NULL;
	if (!code || fault_count == FAULTS_MAX)
		return false;
	*nth++ = *code++ = 0;
	struct fault *f = &faults[fault_count];
	char *end1, *end2;
	f->nth = strtoul(nth, &end1, 10);
	f->code = (CUresult)strtoul(code, &end2, 10);
	if (end1 == nth || *end1 || end2 == code || *end2 || f->code == CUDA_SUCCESS)
		return false;
	for (f->id = 0; f->id < FC_ENTRY_MAX; f->id++)
		if (!strcmp(fc_entry_names[f->id], name))
			break;
	if (f->id == FC_ENTRY_MAX)
		return false;
	fault_count++;
	return true;
}

static void faults_read(void)
{
	const char *text = getenv("FAKECUDA_FAIL");
	char copy[1024], *save = NULL;
	if (!text)
		return;
	bool ok = strlen(text) < sizeof(copy);
	if (ok) {
		memcpy(copy, text, strlen(text) + 1);
		for (char *p = strtok_r(copy, ",", &save); p && ok; p = strtok_r(NULL, ",", &save))
			ok = fault_parse(p);
	}
	if (!ok)
		complain("FAKECUDA_FAIL", text,
			 "ENTRY:NTH:CODE[,...] (NTH counts from 1, 0 is every call; CODE is a "
			 "CUresult number)");
}

static void settings_read(void)
{
	const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
	fc_settings.driver_version = (int)number("FAKECUDA_DRIVER_VERSION", 13000, 11000, 99999);
	fc_settings.devices = (int)number("FAKECUDA_DEVICES", 1, 0, FC_MAX_DEVICES);
	fc_settings.launch_ns = number("FAKECUDA_LAUNCH_NS", 0, 0, UINT64_C(60000000000));
	fc_settings.mem_bytes =
		number("FAKECUDA_MEM_BYTES", (uint64_t)16 << 30, 1 << 20, (uint64_t)1 << 44);
	fc_settings.queue_depth = (unsigned)number("FAKECUDA_QUEUE_DEPTH", 1024, 1, 1 << 20);
	fc_settings.launch_blocking = blocking && !strcmp(blocking, "1");
	faults_read();
}

void fc_settings_read(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, settings_read);
}

bool fc_faults_wanted(void)
{
	return fault_count != 0;
}

CUresult fc_fault(enum fc_entry id)
{
	for (unsigned i = 0; i < fault_count; i++) {
		struct fault *f = &faults[i];
		if (f->id == id && (atomic_fetch_add(&f->calls, 1) + 1 == f->nth || !f->nth))
			return f->code;
	}
	return CUDA_SUCCESS;
}
