/* SPDX-License-Identifier: Apache-2.0
 *
 * The rare half of protobuf writing: long nested messages.
 */
#include "exporters/perfetto/pb.h"

void pb_end_long(struct pb *pb, uint8_t *length, size_t bytes)
{
	size_t more = 0;

	for (size_t left = bytes >> 7; left; left >>= 7)
		more++;
	memmove(length + 1 + more, length + 1, bytes);
	for (size_t i = 0; i < more; i++)
		length[i] = (uint8_t)(bytes >> 7 * i) | 0x80;
	length[more] = (uint8_t)(bytes >> 7 * more);
	pb->at += more;
}
