/* SPDX-License-Identifier: Apache-2.0
 * The events of the timeline as the page holds them, and as the timeline wants them: for each row, arrays in
 * order of begins with a tree over them. */

function bytesOf(text) {
	if (Uint8Array.fromBase64)
		return Uint8Array.fromBase64(text);
	const binary = atob(text), bytes = new Uint8Array(binary.length);
	for (let i = 0; i < binary.length; i++)
		bytes[i] = binary.charCodeAt(i);
	return bytes;
}
export async function inflated(text) {
	const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* A tree over the events of a row. Node i of level k stands for the events i * 2^k up to (i + 1) * 2^k: ends
 * has the latest end among them, longest the index of the longest. Level 0 is the events themselves. */
export class Row {
	constructor(begin, end, names) {
		Object.assign(this, {begin, end, names, ends: [end], longest: [null]});
		for (let below = end, level = 0; below.length > 1; level++) {
			const count = (below.length + 1) >> 1, ends = new Float64Array(count), longest = new Uint32Array(count);
			const under = this.longest[level];
			for (let i = 0; i < count; i++) {
				const a = 2 * i, b = Math.min(a + 1, below.length - 1);
				const first = under ? under[a] : a, second = under ? under[b] : b;
				ends[i] = Math.max(below[a], below[b]);
				longest[i] = end[first] - begin[first] >= end[second] - begin[second] ? first : second;
			}
			this.ends.push(ends);
			this.longest.push(longest);
			below = ends;
		}
	}
	/* Calls each(index, begin, end, one) for what lies between two times, from left to right: events, or where
	 * many of them are within `least` together, their span and the longest of them. each() answers up to which
	 * time nothing more is wanted. */
	visit(from, to, least, each) {
		if (!this.begin.length)
			return;
		const stack = [this.ends.length - 1, 0];
		let done = from;
		while (stack.length) {
			const i = stack.pop(), level = stack.pop(), begin = this.begin[i * 2 ** level], end = this.ends[level][i];
			/* A moment at `from` is seen as well. */
			if (begin > to || end < done)
				continue;
			if (level === 0) {
				done = Math.max(done, each(i, begin, end, true));
			} else if (end - begin <= least) {
				done = Math.max(done, each(this.longest[level][i], begin, end, false));
			} else {
				if (2 * i + 1 < this.ends[level - 1].length)
					stack.push(level - 1, 2 * i + 1);
				stack.push(level - 1, 2 * i);
			}
		}
	}
}

/* Columns of variable-length numbers: for each row the distances of the begins, the lengths, the names. Lets the
 * page be painted and used in between. */
export async function decode(bytes, tracks) {
	let at = 0, paused = performance.now();
	const next = () => {
		let value = 0, scale = 1;
		for (;;) {
			const byte = bytes[at++];
			value += (byte & 127) * scale;
			if (byte < 128)
				return value;
			scale *= 128;
		}
	};
	for (const track of tracks) {
		const begin = new Float64Array(track.count), end = new Float64Array(track.count), names = new Uint32Array(track.count);
		for (let i = 0, now = 0; i < track.count; i++)
			begin[i] = now += next();
		for (let i = 0; i < track.count; i++)
			end[i] = begin[i] + next();
		for (let i = 0; i < track.count; i++)
			names[i] = next();
		track.row = new Row(begin, end, names);
		if (performance.now() - paused > 30) {
			await new Promise((resume) => setTimeout(resume, 0));
			paused = performance.now();
		}
	}
}
