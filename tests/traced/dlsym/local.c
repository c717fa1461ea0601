/* SPDX-License-Identifier: Apache-2.0
 *
 * Opened with RTLD_LOCAL: its names are in no scope but its own, where RTLD_DEFAULT finds them only if
 * glibc sees that the caller is this library. Some names look like those of a driver and are not.
 */
#include <dlfcn.h>
#include <stddef.h>

int local_only(void);
int cuckoo(void);
int cuInit(unsigned flags);
int cuTest(void);
int cublasCreate_v2(void);
int curl_easy_init(void);
int fi(void);
int fi_(void);
int fi_local(void);
void *local_default(const char *name);
void *local_next(const char *name);

int local_only(void)
{
	return 7;
}

int cuckoo(void)
{
	return 8;
}

/* The name of a driver's function, in a library that is no driver. */
int cuInit(unsigned flags)
{
	return (int)flags + 9;
}

int cuTest(void)
{
	return 10;
}

int cublasCreate_v2(void)
{
	return 11;
}

int curl_easy_init(void)
{
	return 12;
}

int fi(void)
{
	return 13;
}

int fi_(void)
{
	return 14;
}

int fi_local(void)
{
	return 15;
}

void *local_default(const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	return found;
}

void *local_next(const char *name)
{
	void *found = dlsym(RTLD_NEXT, name);

	return found;
}
