/* SPDX-License-Identifier: Apache-2.0
 * The timeline: a canvas over a box that scrolls, with a row a track. A frame draws the rows that are seen, and
 * of each no more than it has pixels. */
import {bisectLeft} from "d3-array";
import {scaleLinear} from "d3-scale";
import {inCount, inTime} from "./words.js";

const ROW = 22, HEAD = 26, HEIGHT = 620, LEAST_NS = 100;

export class Timeline {
	/* data: {length_ns, tracks, names}; box: the element that scrolls, around canvas and space; tip: where words
	 * about an event go; open: called with the name of an event that was chosen. */
	constructor(data, {box, canvas, space, tip}, open) {
		Object.assign(this, {data, box, canvas, space, tip, open});
		this.tracks = data.tracks;
		this.from = 0;
		this.to = data.length_ns;
		this.pending = false;
		this.frame_ms = 0;
		this.chosen = null; /* {track, index}: by the keyboard or a click */
		this.fingers = new Map();
		for (const [kind, handler] of [["pointerdown", this.grab], ["pointermove", this.move], ["pointerup", this.release],
			["pointercancel", this.drop], ["keydown", this.key], ["dblclick", (event) => this.zoom(0.25, this.timeAt(event.offsetX))]])
			canvas.addEventListener(kind, handler.bind(this));
		canvas.addEventListener("wheel", (event) => this.wheel(event), {passive: false});
		for (const kind of ["focus", "blur"])
			canvas.addEventListener(kind, () => this.later());
		box.addEventListener("scroll", () => this.later());
		new ResizeObserver(() => this.later()).observe(box);
		matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
			this.colours = null;
			this.later();
		});
		/* Paper does not scroll. */
		for (const [kind, paper] of [["beforeprint", true], ["afterprint", false]])
			addEventListener(kind, () => {
				this.paper = paper;
				document.documentElement.classList.toggle("paper", paper);
				this.colours = null;
				this.draw();
			});
	}
	/* --- what is seen ---------------------------------------------------------------------------- */
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
		const least = Math.min(LEAST_NS, this.data.length_ns), length = Math.min(this.data.length_ns, Math.max(least, to - from));
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
	/* Middle of a row, from the top of the canvas. */
	rowAt(i) {
		return HEAD + (i + 0.5) * ROW - this.box.scrollTop;
	}
	colour(name) {
		if (!this.colours) {
			this.style = getComputedStyle(document.documentElement);
			this.colours = new Map();
		}
		if (!this.colours.has(name))
			this.colours.set(name, this.style.getPropertyValue("--" + name).trim());
		return this.colours.get(name);
	}
	/* --- drawing --------------------------------------------------------------------------------- */
	/* The canvas as large as what is seen of the rows. */
	size() {
		const ratio = devicePixelRatio || 1, all = HEAD + this.tracks.length * ROW;
		this.width = this.box.clientWidth;
		this.left = Math.min(210, Math.round(this.width * 0.3));
		this.height = Math.min(all, this.paper ? 2 * HEIGHT : HEIGHT);
		const [width, height] = [Math.round(this.width * ratio), Math.round(this.height * ratio)];
		this.box.style.maxHeight = this.height + 2 + "px";
		this.canvas.style.height = this.height + "px";
		this.space.style.height = all - this.height + "px";
		if (this.canvas.width !== width || this.canvas.height !== height)
			[this.canvas.width, this.canvas.height] = [width, height];
		const pen = this.canvas.getContext("2d");
		pen.setTransform(ratio, 0, 0, ratio, 0, 0);
		return pen;
	}
	draw() {
		const started = performance.now(), pen = this.size();
		this.drawn = 0;
		pen.font = "12px system-ui, sans-serif";
		pen.fillStyle = this.colour("back");
		pen.fillRect(0, 0, this.width, this.height);
		const first = Math.max(0, Math.floor(this.box.scrollTop / ROW)), last = Math.min(this.tracks.length, first + Math.ceil(this.height / ROW) + 1);
		for (let i = first; i < last; i++)
			this.drawTrack(pen, this.tracks[i], this.rowAt(i) - ROW / 2);
		this.drawAxis(pen);
		this.drawChosen(pen);
		this.frame_ms = performance.now() - started;
	}
	drawAxis(pen) {
		const x = scaleLinear([this.from, this.to], [this.left, this.width]);
		const marks = x.ticks(Math.max(2, (this.width - this.left) / 110)), step = marks.length > 1 ? marks[1] - marks[0] : this.to - this.from;
		pen.fillStyle = this.colour("back");
		pen.fillRect(0, 0, this.width, HEAD);
		pen.strokeStyle = this.colour("line");
		pen.fillStyle = this.colour("soft");
		pen.beginPath();
		for (const at of marks) {
			pen.moveTo(x(at), 18);
			pen.lineTo(x(at), this.height);
			pen.fillText(this.label(at, step), x(at) + 3, 13);
		}
		pen.stroke();
	}
	/* As many digits as tell the marks apart. */
	label(at, step) {
		const units = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]];
		const [unit, size] = units.find(([, ns]) => step >= ns) || units[3];
		return inCount(Math.round(at / size)) + " " + unit;
	}
	drawTrack(pen, track, y) {
		const scale = (this.width - this.left) / (this.to - this.from);
		pen.fillStyle = this.colour(track.kind);
		const wide = [];
		track.row.visit(this.from, this.to, 1 / scale, (index, begin, end) => {
			const x = this.left + Math.max(0, (begin - this.from) * scale);
			const width = Math.max(1, this.left + (Math.min(end, this.to) - this.from) * scale - x);
			this.drawn++;
			pen.fillRect(x, y + 3, width > 3 ? width - 0.5 : width, ROW - 6);
			if (width > 50)
				wide.push([x, width, index]);
			/* What ends within this pixel adds nothing. */
			return this.from + (x + width - this.left) / scale;
		});
		for (const [x, width, index] of wide) {
			pen.save();
			pen.beginPath();
			pen.rect(x, y, width - 4, ROW);
			pen.clip();
			pen.fillStyle = this.colour(track.kind + "-text");
			pen.fillText(this.data.names[track.row.names[index]].label, x + 4, y + 15);
			pen.restore();
		}
		pen.fillStyle = this.colour("back");
		pen.fillRect(0, y, this.left - 4, ROW);
		pen.fillStyle = this.colour("text");
		pen.fillText(this.fitting(pen, track), 4, y + 15);
		pen.strokeStyle = this.colour("line");
		pen.beginPath();
		pen.moveTo(0, y + ROW - 0.5);
		pen.lineTo(this.width, y + ROW - 0.5);
		pen.stroke();
	}
	/* A row's label, cut where it is too long. */
	fitting(pen, track) {
		const room = this.left - 12;
		if (track.room !== room) {
			let text = track.label;
			while (text.length > 1 && pen.measureText(text).width > room)
				text = text.slice(0, text.endsWith("…") ? -2 : -1) + "…";
			track.room = room;
			track.text = text;
		}
		return track.text;
	}
	drawChosen(pen) {
		const row = this.chosen ? this.tracks.indexOf(this.chosen.track) : -1;
		if (row < 0)
			return;
		const {track, index} = this.chosen, scale = (this.width - this.left) / (this.to - this.from), y = this.rowAt(row);
		if (y - ROW / 2 < HEAD - 1)
			return;
		const begin = this.left + (track.row.begin[index] - this.from) * scale, end = this.left + (track.row.end[index] - this.from) * scale;
		if (end < this.left || begin > this.width)
			return;
		pen.strokeStyle = this.colour("text");
		pen.lineWidth = 2;
		pen.strokeRect(Math.max(begin, this.left) - 1, y - ROW / 2 + 2, Math.max(2, Math.min(end, this.width) - Math.max(begin, this.left)) + 2, ROW - 4);
		pen.lineWidth = 1;
	}
	/* --- events ---------------------------------------------------------------------------------- */
	/* The event under a point, the nearest within two pixels, or null. */
	hit(x, y) {
		const track = y < HEAD ? undefined : this.tracks[Math.floor((y - HEAD + this.box.scrollTop) / ROW)];
		if (!track || x < this.left)
			return null;
		const pixel = (this.to - this.from) / (this.width - this.left), time = this.timeAt(x);
		let best = null;
		track.row.visit(time - 2 * pixel, time + 2 * pixel, pixel, (index, begin, end, one) => {
			const away = Math.max(begin - time, time - end, 0);
			if (!best || away < best.away || (away === best.away && end - begin > best.length))
				best = {away, length: end - begin, track, index, one};
			return -1;
		});
		return best;
	}
	words({track, index, one = true}) {
		const name = this.data.names[track.row.names[index]], begin = track.row.begin[index], end = track.row.end[index];
		return `${one ? "" : "longest here: "}${name.label}, ${inTime(end - begin)} at ${inTime(begin)}; ${track.label}${name.place ? "; " + name.place : ""}`;
	}
	choose(track, index) {
		this.chosen = {track, index};
		this.tip.textContent = this.words(this.chosen);
		const begin = track.row.begin[index], end = track.row.end[index], half = (this.to - this.from) / 2;
		if (end < this.from || begin > this.to)
			this.show((begin + end) / 2 - half, (begin + end) / 2 + half);
		const top = this.tracks.indexOf(track) * ROW, seen = this.height - HEAD;
		if (top < this.box.scrollTop)
			this.box.scrollTop = top;
		else if (top + ROW > this.box.scrollTop + seen)
			this.box.scrollTop = top + ROW - seen;
		this.later();
	}
	/* From row to row: what is nearest to the middle of what is seen. */
	chooseRow(by) {
		const now = this.chosen ? this.tracks.indexOf(this.chosen.track) : -1;
		const track = this.tracks[now < 0 ? 0 : Math.max(0, Math.min(this.tracks.length - 1, now + by))];
		if (!track)
			return;
		const middle = now >= 0 ? this.chosen.track.row.begin[this.chosen.index] : (this.from + this.to) / 2;
		const at = bisectLeft(track.row.begin, middle), before = Math.max(0, at - 1);
		this.choose(track, at < track.count && track.row.begin[at] - middle < middle - track.row.begin[before] ? at : before);
	}
	/* From event to event of a row. */
	chooseNext(by) {
		if (!this.chosen)
			this.chooseRow(0);
		else
			this.choose(this.chosen.track, Math.max(0, Math.min(this.chosen.track.count - 1, this.chosen.index + by)));
	}
	openChosen() {
		if (this.chosen)
			this.open(this.data.names[this.chosen.track.row.names[this.chosen.index]]);
	}
	/* --- mouse, fingers, keys -------------------------------------------------------------------- */
	wheel(event) {
		const across = Math.abs(event.deltaX) > Math.abs(event.deltaY);
		/* The page and the rows scroll, until the timeline is clicked or Ctrl is held. */
		if (!event.ctrlKey && !event.shiftKey && !across && document.activeElement !== this.canvas)
			return;
		event.preventDefault();
		const by = (across ? event.deltaX : event.deltaY) * (this.to - this.from) / this.width;
		if (across || event.shiftKey)
			this.show(this.from + by, this.to + by);
		else
			this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.timeAt(event.offsetX));
	}
	grab(event) {
		this.canvas.focus({preventScroll: true});
		this.canvas.setPointerCapture(event.pointerId);
		this.fingers.set(event.pointerId, event.offsetX);
		this.grabbed = {x: event.offsetX, y: event.offsetY, top: this.box.scrollTop, from: this.from, to: this.to, moved: this.fingers.size > 1};
	}
	move(event) {
		if (this.fingers.size > 1) {
			this.pinch(event);
			return;
		}
		if (this.grabbed) {
			const by = (event.offsetX - this.grabbed.x) * (this.grabbed.to - this.grabbed.from) / (this.width - this.left);
			this.grabbed.moved ||= Math.hypot(event.offsetX - this.grabbed.x, event.offsetY - this.grabbed.y) > 3;
			if (this.grabbed.moved) {
				this.box.scrollTop = this.grabbed.top - (event.offsetY - this.grabbed.y);
				this.show(this.grabbed.from - by, this.grabbed.to - by);
			}
			return;
		}
		const found = this.hit(event.offsetX, event.offsetY);
		this.tip.textContent = found ? this.words(found) : this.chosen ? this.words(this.chosen) : "";
	}
	/* Two fingers: what is between them stays between them. */
	pinch(event) {
		const before = [...this.fingers.values()];
		this.fingers.set(event.pointerId, event.offsetX);
		const after = [...this.fingers.values()], apart = Math.abs(after[1] - after[0]);
		if (apart < 8)
			return;
		const factor = Math.abs(before[1] - before[0]) / apart, middle = (before[0] + before[1]) / 2;
		this.zoom(factor, this.timeAt(middle));
		const by = (middle - (after[0] + after[1]) / 2) * (this.to - this.from) / (this.width - this.left);
		this.show(this.from + by, this.to + by);
	}
	drop(event) {
		this.fingers.delete(event.pointerId);
		if (!this.fingers.size)
			this.grabbed = null;
	}
	release(event) {
		const found = this.grabbed && !this.grabbed.moved && event.button === 0 ? this.hit(event.offsetX, event.offsetY) : null;
		this.drop(event);
		if (found) {
			this.choose(found.track, found.index);
			this.openChosen();
		}
	}
	key(event) {
		const part = (this.to - this.from) / 5;
		const keys = {
			"+": () => this.zoom(0.5), "=": () => this.zoom(0.5), w: () => this.zoom(0.5),
			"-": () => this.zoom(2), s: () => this.zoom(2),
			ArrowLeft: () => this.show(this.from - part, this.to - part), a: () => this.show(this.from - part, this.to - part),
			ArrowRight: () => this.show(this.from + part, this.to + part), d: () => this.show(this.from + part, this.to + part),
			Home: () => this.show(0, this.data.length_ns), 0: () => this.show(0, this.data.length_ns),
			ArrowUp: () => this.chooseRow(-1), ArrowDown: () => this.chooseRow(1),
			PageUp: () => this.chooseRow(-10), PageDown: () => this.chooseRow(10),
			".": () => this.chooseNext(1), ",": () => this.chooseNext(-1), Enter: () => this.openChosen(),
		};
		if (!keys[event.key] || event.ctrlKey || event.altKey || event.metaKey)
			return;
		event.preventDefault();
		keys[event.key]();
	}
}
