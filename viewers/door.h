/* SPDX-License-Identifier: Apache-2.0
 *
 * The second door into libfabric: libwaylay.so as one of its hook providers (waylay run --ofi-door).
 */
#ifndef WAYLAY_VIEWERS_DOOR_H
#define WAYLAY_VIEWERS_DOOR_H

#include <stdbool.h>
#include <stddef.h>

/* Makes DIRECTORY/ofi-door with the library in it under the name that libfabric looks for, and adds
 * it to FI_PROVIDER_PATH and FI_HOOK of this process; what they held is kept. False: said why. */
bool door_prepare(const char *directory, const char *library);
/* Where the installed libfabric keeps its providers; false if it has no such directory. */
bool door_default_providers(char *path, size_t size);

#endif
