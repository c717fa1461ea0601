/* SPDX-License-Identifier: Apache-2.0
 *
 * What first.c wraps; layered_versioned comes in two versions.
 */
int layered(void);
int cuckoo_layered(void);
int old_version(void);
int new_version(void);

int layered(void)
{
	return 1;
}

int cuckoo_layered(void)
{
	return 1;
}

__asm__(".symver old_version, layered_versioned@SECOND_1");
__asm__(".symver new_version, layered_versioned@@SECOND_2");

int old_version(void)
{
	return 1;
}

int new_version(void)
{
	return 2;
}
