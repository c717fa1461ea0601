/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking the kernel whether an address can be read. It copies a signal mask from there before it looks
 * at `how`, which we give a value that does not exist: EFAULT or EINVAL, and the mask stays as it is.
 * No container's filter forbids this call, unlike process_vm_readv, which is used for memory of threads
 * that run on.
 */
#include "tracer/inject/memory.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MASK_BYTES 8u
#define STEP_BYTES 4096u /* no page is smaller */

static bool mask_readable(uintptr_t address)
{
	/* Aligned down: eight bytes that cross no page, so that one answer covers them. */
	return syscall(SYS_rt_sigprocmask, -1, address & ~(uintptr_t)(MASK_BYTES - 1), NULL,
		       MASK_BYTES) != -1 ||
	       errno != EFAULT;
}

bool wl_memory_readable(const void *address, size_t bytes)
{
	uintptr_t from = (uintptr_t)address, last = from + (bytes ? bytes - 1 : 0);
	int saved = errno;
	bool readable;

	if (!from || last < from)
		return false;
	readable = mask_readable(from);
	for (uintptr_t at = (from | (STEP_BYTES - 1)) + 1; readable && at <= last && at > from;
	     at += STEP_BYTES)
		readable = mask_readable(at);
	errno = saved;
	return readable;
}

bool wl_memory_copy(const void *address, void *to, size_t bytes)
{
	struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)address, bytes};
	int saved = errno;
	long got = syscall(SYS_process_vm_readv, getpid(), &here, 1ul, &there, 1ul, 0ul);

	errno = saved;
	return got == (long)bytes;
}
