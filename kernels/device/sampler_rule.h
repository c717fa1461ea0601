/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule of the balanced sampler, for the device, the CPU back end and the oracle alike.
 * Everything is integer arithmetic on the seed, so that every implementation gives the same bits.
 *
 * A sample has n items, each positive (label 1), negative (label 0) or ignored. Of P positives and
 * Q negatives,
 *
 *     p0 = min(P, k_pos);  neg = min(Q, k - p0);  pos = min(P, k - neg)
 *
 * are drawn: k_pos slots are meant for positives and the class with too few leaves its slots to the
 * other. Without `fill_pos` pos stays p0: positives never exceed their share and the result may be
 * short.
 *
 * Item i has a key, by a random bijection of 32 bits: keys differ, so there are no ties. The
 * class's items with the smallest keys are drawn; a drawn item's rank is its place among the drawn
 * of both classes by index, and it goes to slot order(rank), a random bijection of [0, pos + neg).
 */
#ifndef WAYLAY_KERNELS_SAMPLER_RULE_H
#define WAYLAY_KERNELS_SAMPLER_RULE_H

#if defined(__CUDACC__) || defined(__CUDA__)
#define RULE_FN static __device__ __attribute__((always_inline)) inline
#else
#define RULE_FN static inline
#endif

/* Of splitmix64; every bit of the input reaches every bit of the output. */
RULE_FN unsigned long long sampler_mix64(unsigned long long z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* The random stream of one sample of one call: words 0 and 1 make the keys, the words from 2 on the
 * order. */
RULE_FN unsigned long long sampler_stream(unsigned long long seed, unsigned long long call,
					  unsigned sample)
{
	unsigned long long h = sampler_mix64(seed + 0x9e3779b97f4a7c15ull * (call + 1));

	return sampler_mix64(h ^ (sample + 1ull) * 0xd1342543de82ef95ull);
}

RULE_FN unsigned long long sampler_word(unsigned long long stream, unsigned i)
{
	return sampler_mix64(stream + 0x9e3779b97f4a7c15ull * (i + 1ull));
}

/* What turns items into keys. */
struct sampler_keys {
	unsigned add, multiply[3]; /* multipliers are odd */
};

RULE_FN struct sampler_keys sampler_keys_of(unsigned long long stream)
{
	unsigned long long w0 = sampler_word(stream, 0), w1 = sampler_word(stream, 1);
	struct sampler_keys keys;

	keys.add = (unsigned)w0;
	keys.multiply[0] = (unsigned)(w0 >> 32) | 1;
	keys.multiply[1] = (unsigned)w1 | 1;
	keys.multiply[2] = (unsigned)(w1 >> 32) | 1;
	return keys;
}

/*
 * A bijection of 32 bits. The multipliers are random too, which saves half of the steps that fixed
 * ones need: with these four the drawn items of a hundred thousand draws were hypergeometric in
 * halves, residues, runs and pairs.
 */
RULE_FN unsigned sampler_key(unsigned item, struct sampler_keys keys)
{
	unsigned v = item * keys.multiply[0] + keys.add;

	v = (v ^ v >> 16) * keys.multiply[1];
	return (v ^ v >> 16) * keys.multiply[2];
}

/* How many positives and negatives to draw. k_pos <= k. */
RULE_FN void sampler_split(unsigned have_pos, unsigned have_neg, unsigned k, unsigned k_pos,
			   unsigned fill_pos, unsigned *pos, unsigned *neg)
{
	unsigned p = have_pos < k_pos ? have_pos : k_pos;
	unsigned n = have_neg < k - p ? have_neg : k - p;

	if (fill_pos)
		p = have_pos < k - n ? have_pos : k - n;
	*pos = p;
	*neg = n;
}

/* Bits that hold [0, m): 0 for m <= 1. */
RULE_FN unsigned sampler_order_bits(unsigned m)
{
	unsigned bits = 0;

	while (bits < 31 && 1u << bits < m)
		bits++;
	return bits;
}

/*
 * Rounds of the order. A round (odd multiply, add, xorshift on so few bits) reaches few of the
 * permutations of a handful of slots: with 4 rounds the order of 3 to 250 items was measurably not
 * uniform (pairs of slots, 600,000 draws), with these numbers it was. Longer orders need fewer,
 * since each round mixes more bits.
 */
#define SAMPLER_ROUNDS_MAX  16
#define SAMPLER_ROUNDS_LONG 5
#define SAMPLER_LONG_BITS   10 /* from here on */
#define SAMPLER_ORDER_WORDS (2 * SAMPLER_ROUNDS_MAX)

RULE_FN unsigned sampler_order_rounds(unsigned bits)
{
	return bits < 6 ? SAMPLER_ROUNDS_MAX : bits < SAMPLER_LONG_BITS ? 10 : SAMPLER_ROUNDS_LONG;
}

/* The order's words: for each round what to add and, odd, what to multiply by. */
RULE_FN void sampler_order_round(unsigned long long stream, unsigned round, unsigned *words)
{
	unsigned long long w = sampler_word(stream, round + 2);

	words[2 * round] = (unsigned)w;
	words[2 * round + 1] = (unsigned)(w >> 32) | 1;
}

/* The slot of `rank` among m in so many rounds. */
RULE_FN unsigned sampler_slot_in(unsigned rounds, unsigned rank, unsigned m, unsigned bits,
				 const unsigned *words)
{
	unsigned mask = (1u << bits) - 1, shift = bits < 2 ? 1 : (bits + 1) / 2,
		 low = mask >> shift, v = rank;

	do { /* values of [m, 2^bits) walk on along their cycle until they are back in [0, m) */
		for (unsigned r = 0; r < rounds; r++) {
			v = v * words[2 * r + 1] +
			    words[2 * r]; /* what is above the mask never comes down again */
			v ^= v >> shift & low;
		}
		v &= mask;
	} while (v >= m);
	return v;
}

/* The other way: what undoes a round, given the words of sampler_order_round. */
RULE_FN void sampler_order_inverse(unsigned *words)
{
	unsigned odd = words[1], inverse = odd; /* right in the lowest 3 bits */

	for (unsigned right = 3; right < 32; right *= 2)
		inverse *= 2 - odd * inverse;
	words[1] = inverse;
}

/* The rank that goes to `slot` among m in so many rounds; `words` are inverses. */
RULE_FN unsigned sampler_rank_in(unsigned rounds, unsigned slot, unsigned m, unsigned bits,
				 const unsigned *words)
{
	unsigned mask = (1u << bits) - 1, shift = bits < 2 ? 1 : (bits + 1) / 2,
		 low = mask >> shift, v = slot;

	do {
		for (unsigned r = rounds; r-- > 0;) {
			v ^= v >> shift &
			     low; /* its own inverse: shift is at least half of the bits */
			v = (v - words[2 * r]) * words[2 * r + 1];
		}
		v &= mask;
	} while (v >= m);
	return v;
}

/* bits = sampler_order_bits(m). */
RULE_FN unsigned sampler_slot(unsigned rank, unsigned m, unsigned bits, const unsigned *words)
{
	return sampler_slot_in(sampler_order_rounds(bits), rank, m, bits, words);
}

#endif
