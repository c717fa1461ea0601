/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares fake_cuda.h with NVIDIA's header, number by number; the prototypes were compared when
 * abi_theirs.c was compiled. Built only where the toolkit's headers are.
 */
#include "tests/fakecuda/test/abi.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
	int wrong = abi_ours_count != abi_theirs_count;
	for (unsigned i = 0; i < abi_ours_count && i < abi_theirs_count; i++) {
		const struct abi_number *a = &abi_ours[i], *b = &abi_theirs[i];
		if (a->value == b->value && !strcmp(a->name, b->name))
			continue;
		fprintf(stderr, "%s is %ld here and %ld in cuda.h\n", a->name, a->value, b->value);
		wrong++;
	}
	printf("%u numbers of the CUDA ABI compared, %d differ\n", abi_ours_count, wrong);
	return wrong != 0;
}
