/* SPDX-License-Identifier: Apache-2.0
 *
 * A program linked to CUDA calls that it can do without, in a process with no driver.
 */
#include <stdio.h>

enum { CUDA_ERROR_STUB_LIBRARY = 34 };

int cuInit(unsigned flags) __attribute__((weak));
int cuStreamQuery(void *stream) __attribute__((weak));

int main(void)
{
	if (!cuInit || !cuStreamQuery) {
		puts("no CUDA");
		return 0;
	}
	printf("cuInit %d, cuStreamQuery %d\n", cuInit(0), cuStreamQuery(NULL));
	return cuInit(0) != CUDA_ERROR_STUB_LIBRARY ||
	       cuStreamQuery(NULL) != CUDA_ERROR_STUB_LIBRARY;
}
