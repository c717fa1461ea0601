/* SPDX-License-Identifier: Apache-2.0 */
/* The ABI by our header. */
#include "tests/fakecuda/test/abi.h"
#include "tests/fakecuda/fake_cuda.h"

const struct abi_number abi_ours[] = {
#include "tests/fakecuda/test/abi.def"
};
const unsigned abi_ours_count = sizeof(abi_ours) / sizeof(*abi_ours);
