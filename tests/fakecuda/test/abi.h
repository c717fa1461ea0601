/* SPDX-License-Identifier: Apache-2.0 */
/* One number of the ABI, as one header or the other has it. */
#ifndef TESTS_FAKECUDA_TEST_ABI_H
#define TESTS_FAKECUDA_TEST_ABI_H

struct abi_number {
	const char *name;
	long value;
};
extern const struct abi_number abi_ours[], abi_theirs[];
extern const unsigned abi_ours_count, abi_theirs_count;

#define VALUE(name)       {#name, (long)(name)},
#define SIZE(type)        {"sizeof " #type, (long)sizeof(type)},
#define FIELD(type, name) {#type "." #name, (long)__builtin_offsetof(type, name)},

#endif
