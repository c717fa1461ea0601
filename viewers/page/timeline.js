/* SPDX-License-Identifier: Apache-2.0
 * The timeline: a canvas with a row a track. A row's events are kept at many levels of detail, each with
 * half as many as the one before, so that a frame draws no more of a row than it has pixels. */

function bytesOf(text) {
	const binary = atob(text), bytes = new Uint8Array(binary.length);
	for (let i = 0; i < binary.length; i++)
		bytes[i] = binary.charCodeAt(i);
	return bytes;
}
async function inflated(text) {
	const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

/* Levels of one track: begin, end and the longest event in it, by index. */
function levelsOf(begin, end) {
	const levels = [{begin, end, longest: null}];
	for (let below = levels[0]; below.begin.length > 64; below = levels[levels.length - 1]) {
		const count = (below.begin.length + 1) >> 1;
		const level = {begin: new Float64Array(count), end: new Float64Array(count), longest: new Uint32Array(count)};
		for (let i = 0; i < count; i++) {
			const a = 2 * i, b = Math.min(a + 1, below.begin.length - 1);
			const first = below.longest ? below.longest[a] : a, second = below.longest ? below.longest[b] : b;
			level.begin[i] = below.begin[a];
			level.end[i] = Math.max(below.end[a], below.end[b]);
			level.longest[i] = end[first] - begin[first] >= end[second] - begin[second] ? first : second;
		}
		levels.push(level);
	}
	return levels;
}

/* Columns of variable-length numbers: for each track the distances of the begins, the lengths, the names. */
function decode(bytes, tracks) {
	let at = 0;
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
		const begin = new Float64Array(track.count), end = new Float64Array(track.count);
		track.names = new Uint32Array(track.count);
		for (let i = 0, now = 0; i < track.count; i++)
			begin[i] = now += next();
		for (let i = 0; i < track.count; i++)
			end[i] = begin[i] + next();
		for (let i = 0; i < track.count; i++)
			track.names[i] = next();
		track.levels = levelsOf(begin, end);
	}
}

class Timeline {
	constructor(data, canvas, tip, open) {
		Object.assign(this, {data, canvas, tip, open});
		this.tracks = data.tracks;
		this.from = 0;
		this.to = data.length_ns;
		this.row = 22;
		this.left = 210;
		this.pending = false;
		this.frame_ms = 0;
		canvas.addEventListener("wheel", (event) => this.wheel(event), {passive: false});
		canvas.addEventListener("pointerdown", (event) => this.grab(event));
		canvas.addEventListener("pointermove", (event) => this.move(event));
		canvas.addEventListener("pointerup", (event) => this.release(event));
		canvas.addEventListener("keydown", (event) => this.key(event));
		new ResizeObserver(() => this.later()).observe(canvas.parentElement);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.later());
	}
	later() {
		if (this.pending)
			return;
		this.pending = true;
		requestAnimationFrame(() => {
			this.pending = false;
			this.draw();
		});
	}
	show(from, to) {
		const least = Math.min(100, this.data.length_ns), length = Math.min(this.data.length_ns, Math.max(least, to - from));
		this.from = Math.max(0, Math.min(from, this.data.length_ns - length));
		this.to = this.from + length;
		this.later();
	}
	zoom(factor, at = (this.from + this.to) / 2) {
		this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
	}
	timeAt(x) {
		return this.from + (this.to - this.from) * (x - this.left) / (this.width - this.left);
	}
	draw() {
		const started = performance.now(), ratio = devicePixelRatio || 1, style = getComputedStyle(document.documentElement);
		const colour = (name) => style.getPropertyValue("--" + name).trim();
		this.width = this.canvas.clientWidth;
		this.height = 26 + this.tracks.length * this.row;
		this.canvas.style.height = this.height + "px";
		this.canvas.width = this.width * ratio;
		this.canvas.height = this.height * ratio;
		const pen = this.canvas.getContext("2d");
		pen.scale(ratio, ratio);
		pen.fillStyle = colour("back");
		pen.fillRect(0, 0, this.width, this.height);
		pen.font = "12px system-ui, sans-serif";
		this.ruler(pen, colour);
		this.drawn = 0;
		this.tracks.forEach((track, i) => this.drawTrack(pen, colour, track, 26 + i * this.row));
		this.frame_ms = performance.now() - started;
	}
	ruler(pen, colour) {
		const wanted = (this.to - this.from) / Math.max(2, (this.width - this.left) / 110);
		const power = 10 ** Math.floor(Math.log10(wanted));
		const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= wanted);
		pen.strokeStyle = colour("line");
		pen.fillStyle = colour("soft");
		for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
			const x = this.left + (this.width - this.left) * (at - this.from) / (this.to - this.from);
			pen.beginPath();
			pen.moveTo(x, 18);
			pen.lineTo(x, this.height);
			pen.stroke();
			pen.fillText(this.label(at, step), x + 3, 13);
		}
	}
	/* As many digits as tell the marks apart. */
	label(at, step) {
		const units = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]];
		const [unit, size] = units.find(([, ns]) => step >= ns) || units[3];
		return inCount(Math.round(at / size)) + " " + unit;
	}
	/* The level that has at most two events a pixel in what is shown, and its first one that reaches in. */
	visible(track) {
		const pixels = this.width - this.left;
		for (const level of track.levels) {
			const first = this.first(level, this.from), last = this.first(level, this.to, true);
			if (last - first <= 2 * pixels || level === track.levels[track.levels.length - 1])
				return {level, first, last};
		}
		return null;
	}
	/* Index of the first event that ends after a time (or begins after it). Ends do rise with begins but for
	 * rows that overlap, where a few more are looked at. */
	first(level, time, begins = false) {
		let low = 0, high = level.begin.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			if (level.begin[middle] > time)
				high = middle;
			else
				low = middle + 1;
		}
		if (begins)
			return low;
		let at = low;
		for (let k = 0; at > 0 && k < 64; k++, at--)
			if (level.end[at - 1] > time)
				low = at - 1;
		return low;
	}
	drawTrack(pen, colour, track, y) {
		const {level, first, last} = this.visible(track), scale = (this.width - this.left) / (this.to - this.from);
		let painted = -1;
		pen.fillStyle = colour(track.kind);
		for (let i = first; i < last; i++) {
			const begin = this.left + (Math.max(level.begin[i], this.from) - this.from) * scale;
			const end = this.left + (Math.min(level.end[i], this.to) - this.from) * scale;
			if (end <= painted)
				continue;
			const width = Math.max(1, end - begin);
			this.drawn++;
			pen.fillRect(begin, y + 3, width > 3 ? width - 0.5 : width, this.row - 6);
			painted = begin + width;
			if (width > 60) {
				const name = this.data.names[track.names[level.longest ? level.longest[i] : i]];
				pen.save();
				pen.beginPath();
				pen.rect(begin, y, width - 4, this.row);
				pen.clip();
				pen.fillStyle = "#000";
				pen.fillText(name.label, begin + 4, y + 15);
				pen.restore();
			}
		}
		pen.fillStyle = colour("back");
		pen.fillRect(0, y, this.left - 4, this.row);
		pen.fillStyle = colour("text");
		pen.fillText(track.label, 4, y + 15, this.left - 10);
		pen.strokeStyle = colour("line");
		pen.beginPath();
		pen.moveTo(0, y + this.row - 0.5);
		pen.lineTo(this.width, y + this.row - 0.5);
		pen.stroke();
	}
	/* The event under a point, or null. */
	hit(x, y) {
		const track = this.tracks[Math.floor((y - 26) / this.row)];
		if (!track || x < this.left)
			return null;
		const {level, first, last} = this.visible(track), slack = 2 * (this.to - this.from) / (this.width - this.left), time = this.timeAt(x);
		for (let i = first; i < last; i++)
			if (level.begin[i] - slack <= time && level.end[i] + slack >= time) {
				const index = level.longest ? level.longest[i] : i, base = track.levels[0];
				return {track, name: this.data.names[track.names[index]], begin: base.begin[index], end: base.end[index], of: level.longest ? "longest here: " : ""};
			}
		return null;
	}
	wheel(event) {
		if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY) && document.activeElement !== this.canvas)
			return; /* the page scrolls until the timeline is clicked */
		event.preventDefault();
		const x = event.offsetX;
		if (Math.abs(event.deltaX) > Math.abs(event.deltaY))
			this.show(this.from + event.deltaX * (this.to - this.from) / this.width, this.to + event.deltaX * (this.to - this.from) / this.width);
		else
			this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(x));
	}
	grab(event) {
		this.canvas.focus();
		this.canvas.setPointerCapture(event.pointerId);
		this.grabbed = {x: event.offsetX, from: this.from, to: this.to, moved: false};
	}
	move(event) {
		if (this.grabbed) {
			const by = (event.offsetX - this.grabbed.x) * (this.to - this.from) / (this.width - this.left);
			this.grabbed.moved ||= Math.abs(event.offsetX - this.grabbed.x) > 3;
			if (this.grabbed.moved)
				this.show(this.grabbed.from - by, this.grabbed.to - by);
			return;
		}
		const found = this.hit(event.offsetX, event.offsetY);
		this.tip.textContent = found ? `${found.of}${found.name.label}, ${inTime(found.end - found.begin)} at ${inTime(found.begin)}; ${found.track.label}${found.name.place ? "; " + found.name.place : ""}` : "";
	}
	release(event) {
		const moved = this.grabbed && this.grabbed.moved;
		this.grabbed = null;
		const found = moved ? null : this.hit(event.offsetX, event.offsetY);
		if (found)
			this.open(found.name);
	}
	key(event) {
		const part = (this.to - this.from) / 5;
		const keys = {
			"+": () => this.zoom(0.5), "=": () => this.zoom(0.5), w: () => this.zoom(0.5),
			"-": () => this.zoom(2), s: () => this.zoom(2),
			ArrowLeft: () => this.show(this.from - part, this.to - part), a: () => this.show(this.from - part, this.to - part),
			ArrowRight: () => this.show(this.from + part, this.to + part), d: () => this.show(this.from + part, this.to + part),
			Home: () => this.show(0, this.data.length_ns), 0: () => this.show(0, this.data.length_ns),
		};
		if (!keys[event.key] || event.ctrlKey || event.altKey || event.metaKey)
			return;
		event.preventDefault();
		keys[event.key]();
	}
}
