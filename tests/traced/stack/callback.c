/* SPDX-License-Identifier: Apache-2.0
 *
 * A library with one function in the middle of a stack.
 */
const char *through(const char *(*call)(void));

static volatile int calls;

__attribute__((visibility("default"))) const char *through(const char *(*call)(void))
{
	const char *text = call();

	calls++; /* work behind the call, so that it does not become a jump */
	return text;
}
