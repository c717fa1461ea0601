/* SPDX-License-Identifier: Apache-2.0
 *
 * Call frame information, as the x86-64 and AArch64 ABIs and the LSB (.eh_frame, .eh_frame_hdr) lay it
 * out: finds the description of a function by the sorted table of its object, runs its program up to
 * the address, and packs what a walk needs. Compilers' output is trusted as far as the loader has to;
 * what is not understood gives "unknown", never a guess.
 */
#include "tracer/inject/unwind_rule.h"
#include "tracer/inject/elf.h"

#include <string.h>

#if defined(__x86_64__)
enum { REG_FP = 6, REG_SP = 7, REG_RA = 16 };
#else
enum { REG_FP = 29, REG_SP = 31, REG_RA = 30 };
#endif

/* How a pointer is written down (low four bits: format; next three: what it is relative to). */
enum {
	ENC_ABSOLUTE = 0x00,
	ENC_UDATA4 = 0x03,
	ENC_SDATA4 = 0x0b,
	ENC_UDATA8 = 0x04,
	ENC_SDATA8 = 0x0c,
	ENC_PC_RELATIVE = 0x10,
	ENC_DATA_RELATIVE = 0x30,
};
#define HEADER_TABLE (ENC_DATA_RELATIVE | ENC_SDATA4)

#define STATES_MAX 8 /* of DW_CFA_remember_state; compilers nest one or two */

/* Where a register's old value is. */
enum place { PLACE_SAME, PLACE_CFA_OFFSET, PLACE_UNDEFINED, PLACE_OTHER };

struct state {
	bool cfa_known; /* base and offset, not an expression */
	unsigned cfa_register;
	int64_t cfa_offset;
	enum place fp_place, ra_place;
	int64_t fp_offset, ra_offset;
};

struct bytes {
	const uint8_t *at, *end;
	bool bad;
};

/* A function's description and what it shares with others. */
struct description {
	struct bytes common_program, program;
	uint64_t code_align;
	int64_t data_align;
	uintptr_t start;
	uint64_t length;
	bool signal_frame;
};

/* --- reading ------------------------------------------------------------------------------------ */

static uint64_t fixed(struct bytes *b, unsigned size)
{
	uint64_t value = 0;

	if (b->bad || (size_t)(b->end - b->at) < size) {
		b->bad = true;
		return 0;
	}
	memcpy(&value, b->at, size); /* both processors are little-endian */
	b->at += size;
	return value;
}

static uint64_t uleb(struct bytes *b)
{
	uint64_t value = 0;

	for (unsigned shift = 0; !b->bad; shift += 7) {
		uint64_t byte = fixed(b, 1);

		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			break;
	}
	return value;
}

static int64_t sleb(struct bytes *b)
{
	uint64_t value = 0, byte = 0;
	unsigned shift = 0;

	do {
		byte = fixed(b, 1);
		if (shift < 64)
			value |= (byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80 && !b->bad);
	if (shift < 64 && byte & 0x40)
		value |= ~(uint64_t)0 << shift;
	return (int64_t)value;
}

static void skip(struct bytes *b, uint64_t count)
{
	if (b->bad || count > (uint64_t)(b->end - b->at))
		b->bad = true;
	else
		b->at += count;
}

static unsigned encoded_size(uint8_t encoding)
{
	switch (encoding & 0x0f) {
	case ENC_UDATA4:
	case ENC_SDATA4:
		return 4;
	case ENC_ABSOLUTE:
	case ENC_UDATA8:
	case ENC_SDATA8:
		return 8;
	default:
		return 0;
	}
}

static uint64_t encoded(struct bytes *b, uint8_t encoding)
{
	const uint8_t *here = b->at;
	unsigned size = encoded_size(encoding);
	uint64_t value = fixed(b, size);

	if (!size)
		b->bad = true;
	if ((encoding & 0x0f) == ENC_SDATA4)
		value = (uint64_t)(int64_t)(int32_t)value;
	if ((encoding & 0x70) == ENC_PC_RELATIVE)
		value += (uintptr_t)here;
	else if (encoding & 0x70)
		b->bad = true;
	return value;
}

/* The body of an entry at that address: after its length, up to its end. */
static struct bytes entry_body(const uint8_t *at)
{
	struct bytes b = {at, at + 4, false};
	uint64_t length = fixed(&b, 4);

	b.end = at + 12;
	if (length == 0xffffffff)
		length = fixed(&b, 8);
	b.bad = !length || length > 1u << 28;
	b.end = b.at + (b.bad ? 0 : length);
	return b;
}

/* --- finding the function -------------------------------------------------------------------------- */

/* The entry whose function begins last at or before the address, NULL if there is none. */
static const uint8_t *table_search(const uint8_t *header, uintptr_t address)
{
	struct row {
		int32_t start, entry; /* both from the header's address */
	};
	const struct row *rows = (const struct row *)(header + 12);
	uint32_t count, low = 0, high;
	int64_t wanted = (int64_t)(address - (uintptr_t)header);

	if (header[0] != 1 || header[2] != ENC_UDATA4 || header[3] != HEADER_TABLE ||
	    encoded_size(header[1]) != 4)
		return NULL;
	memcpy(&count, header + 8, 4);
	high = count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (rows[middle].start <= wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? header + rows[low - 1].entry : NULL;
}

/* What functions share. Returns the encoding of their addresses, or 0xff. */
static uint8_t common_read(const uint8_t *at, struct description *d, bool *augmented)
{
	struct bytes b = entry_body(at);
	uint8_t encoding = ENC_ABSOLUTE;
	const char *augmentation;
	const uint8_t *after;
	uint64_t version, bytes;

	if (fixed(&b, 4)) /* not a common entry */
		return 0xff;
	version = fixed(&b, 1);
	augmentation = (const char *)b.at;
	while (fixed(&b, 1))
		;
	d->code_align = uleb(&b);
	d->data_align = sleb(&b);
	if ((version != 1 && version != 3) || (version == 1 ? fixed(&b, 1) : uleb(&b)) != REG_RA ||
	    b.bad)
		return 0xff;
	*augmented = augmentation[0] == 'z';
	if (augmentation[0] && !*augmented)
		return 0xff;
	if (*augmented) {
		bytes = uleb(&b);
		after = b.at + bytes;
		for (const char *c = augmentation + 1; *c && !b.bad; c++) {
			if (*c == 'R')
				encoding = (uint8_t)fixed(&b, 1);
			else if (*c == 'P')
				skip(&b, encoded_size((uint8_t)fixed(&b, 1)));
			else if (*c == 'L')
				skip(&b, 1);
			else if (*c == 'S')
				d->signal_frame = true;
			else if (*c != 'B') /* 'B': AArch64, which key signs addresses */
				return 0xff;
		}
		b.at = after;
	}
	d->common_program = b;
	return b.bad || b.at > b.end ? 0xff : encoding;
}

static bool description_read(const uint8_t *at, struct description *d)
{
	struct bytes b = entry_body(at);
	const uint8_t *here = b.at;
	uint64_t back = fixed(&b, 4), bytes;
	bool augmented = false;
	uint8_t encoding;

	if (b.bad || !back)
		return false;
	encoding = common_read(here - back, d, &augmented);
	if (encoding == 0xff)
		return false;
	d->start = (uintptr_t)encoded(&b, encoding);
	d->length = encoded(&b, encoding & 0x0f);
	if (augmented) {
		bytes = uleb(&b);
		skip(&b, bytes);
	}
	d->program = b;
	return !b.bad;
}

/* --- running its program --------------------------------------------------------------------------- */

static void register_put(struct state *s, uint64_t number, enum place place, int64_t offset)
{
	if (number == REG_FP) {
		s->fp_place = place;
		s->fp_offset = offset;
	} else if (number == REG_RA) {
		s->ra_place = place;
		s->ra_offset = offset;
	}
}

static void register_restore(struct state *s, const struct state *initial, uint64_t number)
{
	if (number == REG_FP)
		register_put(s, number, initial->fp_place, initial->fp_offset);
	else if (number == REG_RA)
		register_put(s, number, initial->ra_place, initial->ra_offset);
}

static void cfa_put(struct state *s, uint64_t number, int64_t offset)
{
	s->cfa_known = true;
	s->cfa_register = (unsigned)number;
	s->cfa_offset = offset;
}

struct machine {
	const struct description *d;
	struct state state, initial, saved[STATES_MAX];
	unsigned depth;
	uintptr_t location;
};

/* Instructions with their operand in the low six bits. False: not one of them. */
static bool run_short(struct machine *m, struct bytes *b, uint8_t op)
{
	uint8_t low = op & 0x3f;

	switch (op >> 6) {
	case 1:
		m->location += low * m->d->code_align;
		return true;
	case 2:
		register_put(&m->state, low, PLACE_CFA_OFFSET, (int64_t)uleb(b) * m->d->data_align);
		return true;
	case 3:
		register_restore(&m->state, &m->initial, low);
		return true;
	default:
		return false;
	}
}

/* The others. False: one that we do not know. */
static bool run_long(struct machine *m, struct bytes *b, uint8_t op)
{
	int64_t align = m->d->data_align;
	uint64_t number;

	switch (op) {
	case 0x00: /* nop */
		return true;
	case 0x02: /* advance_loc1, 2, 4 */
	case 0x03:
	case 0x04:
		m->location += fixed(b, 1u << (op - 2)) * m->d->code_align;
		return true;
	case 0x05: /* offset_extended */
		number = uleb(b);
		register_put(&m->state, number, PLACE_CFA_OFFSET, (int64_t)uleb(b) * align);
		return true;
	case 0x06: /* restore_extended */
		register_restore(&m->state, &m->initial, uleb(b));
		return true;
	case 0x07: /* undefined */
		register_put(&m->state, uleb(b), PLACE_UNDEFINED, 0);
		return true;
	case 0x08: /* same_value */
		register_put(&m->state, uleb(b), PLACE_SAME, 0);
		return true;
	case 0x09: /* register */
		register_put(&m->state, uleb(b), PLACE_OTHER, 0);
		uleb(b);
		return true;
	case 0x0a: /* remember_state */
		if (m->depth == STATES_MAX)
			return false;
		m->saved[m->depth++] = m->state;
		return true;
	case 0x0b: /* restore_state */
		if (!m->depth)
			return false;
		m->state = m->saved[--m->depth];
		return true;
	case 0x0c: /* def_cfa */
		number = uleb(b);
		cfa_put(&m->state, number, (int64_t)uleb(b));
		return true;
	case 0x0d: /* def_cfa_register */
		cfa_put(&m->state, uleb(b), m->state.cfa_offset);
		return true;
	case 0x0e: /* def_cfa_offset */
		m->state.cfa_offset = (int64_t)uleb(b);
		return true;
	case 0x0f: /* def_cfa_expression */
		m->state.cfa_known = false;
		skip(b, uleb(b));
		return true;
	case 0x10: /* expression, val_expression */
	case 0x16:
		register_put(&m->state, uleb(b), PLACE_OTHER, 0);
		skip(b, uleb(b));
		return true;
	case 0x11: /* offset_extended_sf */
		number = uleb(b);
		register_put(&m->state, number, PLACE_CFA_OFFSET, sleb(b) * align);
		return true;
	case 0x12: /* def_cfa_sf */
		number = uleb(b);
		cfa_put(&m->state, number, sleb(b) * align);
		return true;
	case 0x13: /* def_cfa_offset_sf */
		m->state.cfa_offset = sleb(b) * align;
		return true;
	case 0x14: /* val_offset, val_offset_sf */
	case 0x15:
		register_put(&m->state, uleb(b), PLACE_OTHER, 0);
		sleb(b);
		return true;
	case 0x2d: /* AArch64: the return address is signed from here on; a walk strips it */
		return true;
	case 0x2e: /* GNU_args_size */
		uleb(b);
		return true;
	default:
		return false;
	}
}

/* Up to (not including) what holds only behind the address. */
static bool run(struct machine *m, struct bytes program, uintptr_t address)
{
	while (program.at < program.end && m->location <= address) {
		uint8_t op = (uint8_t)fixed(&program, 1);
		struct state before = m->state;

		if (!run_short(m, &program, op) && !run_long(m, &program, op))
			return false;
		if (m->location > address)
			m->state = before;
	}
	return !program.bad;
}

/* --- packing ---------------------------------------------------------------------------------------- */

static bool fits(int64_t value, unsigned bits)
{
	return value >= -((int64_t)1 << (bits - 1)) && value < (int64_t)1 << (bits - 1);
}

static uint64_t pack(const struct state *s)
{
	uint64_t rule = WL_RULE_VALID;

	if (s->ra_place == PLACE_UNDEFINED)
		return WL_RULE_VALID | WL_RULE_END;
	if (!s->cfa_known || (s->cfa_register != REG_SP && s->cfa_register != REG_FP) ||
	    !fits(s->cfa_offset, 24) || !fits(s->fp_offset, 16) || !fits(s->ra_offset, 16) ||
	    s->ra_place == PLACE_OTHER || s->fp_place == PLACE_OTHER)
		return WL_RULE_VALID | WL_RULE_UNKNOWN;
	if (s->cfa_register == REG_FP)
		rule |= WL_RULE_CFA_FP;
	if (s->fp_place == PLACE_CFA_OFFSET)
		rule |= WL_RULE_FP_SAVED;
	if (s->ra_place == PLACE_SAME)
		rule |= WL_RULE_LEAF;
	return rule | (uint64_t)(uint32_t)(s->cfa_offset & 0xffffff) << 8 |
	       (uint64_t)(uint16_t)s->fp_offset << 32 | (uint64_t)(uint16_t)s->ra_offset << 48;
}

uint64_t wl_unwind_rule_find(uintptr_t address)
{
	const uint8_t *header = wl_place_eh_frame((const void *)address), *entry;
	struct description d = {0};
	struct machine m = {.d = &d};

	if (!header) /* code made at run time: whoever made it may have told libgcc about it */
		return WL_RULE_VALID | WL_RULE_UNKNOWN;
	entry = table_search(header, address);
	if (!entry || !description_read(entry, &d))
		return WL_RULE_VALID | WL_RULE_UNKNOWN;
	if (address < d.start || address - d.start >= d.length)
		return WL_RULE_VALID | WL_RULE_END;
	if (d.signal_frame)
		return WL_RULE_VALID | WL_RULE_UNKNOWN;
	m.location = d.start;
	if (!run(&m, d.common_program, UINTPTR_MAX))
		return WL_RULE_VALID | WL_RULE_UNKNOWN;
	m.initial = m.state;
	m.location = d.start;
	if (!run(&m, d.program, address))
		return WL_RULE_VALID | WL_RULE_UNKNOWN;
	return pack(&m.state);
}
