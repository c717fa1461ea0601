/* SPDX-License-Identifier: Apache-2.0
 *
 * Preloaded into an interpreter, makes it claim another version: its frames are then not laid out as
 * the tracer believes.
 */
#include <stdlib.h>

const char *Py_GetVersion(void);

__attribute__((visibility("default"))) const char *Py_GetVersion(void)
{
	const char *claimed = getenv("CLAIMED_PYTHON_VERSION");

	return claimed ? claimed : "3.99.0 (none)";
}
