/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that finds the preloaded names of CUDA calls with no driver in the process.
 */
#include <dlfcn.h>
#include <stdio.h>

enum { CUDA_ERROR_STUB_LIBRARY = 34 };

int main(void)
{
	int (*init)(unsigned) = (int (*)(unsigned))dlsym(RTLD_DEFAULT, "cuInit");
	int (*query)(void *) = (int (*)(void *))dlsym(RTLD_DEFAULT, "cuStreamQuery");

	if (!init || !query) {
		fprintf(stderr, "cuda_no_driver: the names are not exported\n");
		return 1;
	}
	if (init(0) != CUDA_ERROR_STUB_LIBRARY || query(NULL) != CUDA_ERROR_STUB_LIBRARY) {
		fprintf(stderr, "cuda_no_driver: cuInit gave %d\n", init(0));
		return 1;
	}
	return 0;
}
