/* SPDX-License-Identifier: Apache-2.0
 * Pictures of few numbers, as SVG, each with its numbers in words. */
import {scaleLinear, scaleLog} from "d3-scale";
import {curveStepAfter, line} from "d3-shape";
import {inBytes, inCount, make} from "./words.js";

function frame(width, height, label) {
	return make("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label});
}

/* points: [capacity, hits, time]; hits of total, on a logarithmic axis of capacities. */
export function curve(points, total, knee, inWords, label) {
	const width = 480, height = 240, left = 48, bottom = 34, top = 12, right = 14;
	const svg = frame(width, height, label);
	const least = Math.max(1, points[0][0]), most = Math.max(2 * least, points[points.length - 1][0]);
	const x = scaleLog([least, most], [left, width - right]).base(2);
	const y = scaleLinear([0, Math.max(1, total)], [height - bottom, top]);
	for (const part of [0, 0.25, 0.5, 0.75, 1]) {
		const at = y(total * part);
		svg.append(make("line", {class: "grid", x1: left, x2: width - right, y1: at, y2: at}),
			make("text", {x: left - 6, y: at + 4, "text-anchor": "end"}, 100 * part + " %"));
	}
	for (const capacity of x.ticks(5))
		svg.append(make("text", {x: x(capacity), y: height - 14, "text-anchor": "middle"}, inWords(capacity)));
	const steps = [[least, 0], ...points.map(([capacity, hits]) => [Math.max(1, capacity), hits]), [most, points[points.length - 1][1]]];
	svg.append(make("path", {d: line((one) => x(one[0]), (one) => y(one[1])).curve(curveStepAfter)(steps),
		fill: "none", stroke: "var(--registrations)", "stroke-width": 2.5}));
	if (knee !== null) {
		const at = x(Math.max(1, knee)), before = at > width - 130;
		svg.append(make("line", {x1: at, x2: at, y1: top, y2: height - bottom, stroke: "var(--text)", "stroke-dasharray": "4 3"}),
			make("text", {x: before ? at - 4 : at + 4, y: height - bottom - 6, "text-anchor": before ? "end" : "start"}, "95 % at " + inWords(knee)));
	}
	return svg;
}

/* sizes: [bytes, count, moved] */
export function histogram(sizes, label) {
	const width = 480, row = 20, left = 80;
	const x = scaleLinear([0, Math.max(...sizes.map((size) => size[1]))], [0, width - left - 170]);
	const svg = frame(width, sizes.length * row + 6, label);
	sizes.forEach(([bytes, count, moved], i) => {
		const long = Math.max(1, x(count));
		svg.append(make("text", {x: left - 6, y: i * row + 15, "text-anchor": "end"}, "≤ " + inBytes(bytes)),
			make("rect", {x: left, y: i * row + 3, width: long, height: row - 5, fill: "var(--transfers)"}),
			make("text", {x: left + long + 5, y: i * row + 15}, inCount(count) + " (" + inBytes(moved) + ")"));
	});
	return svg;
}

/* Bytes from each process to each of its peers: numbers, shaded by how many. */
export function matrix(peers, processName) {
	const sends = peers.filter((one) => one.peer !== null && /send|write/.test(one.operation));
	if (!sends.length)
		return null;
	const rows = [...new Set(sends.map((one) => one.process))], columns = [...new Set(sends.map((one) => one.peer))].sort((a, b) => a - b);
	if (rows.length > 256 || columns.length > 256)
		return make("p", {}, "There are too many pairs for a matrix; the table below has them.");
	const sums = new Map();
	let most = 0;
	for (const one of sends) {
		const key = one.process + " " + one.peer, bytes = (sums.get(key) || 0) + one.bytes;
		sums.set(key, bytes);
		most = Math.max(most, bytes);
	}
	return make("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Bytes sent between ranks"},
		make("table", {class: "matrix"}, make("caption", {}, "Bytes sent or written: from (rows) to peer (columns)"),
			make("thead", {}, make("tr", {}, make("th", {scope: "col"}, "from"), ...columns.map((peer) => make("th", {scope: "col", class: "number"}, "peer " + peer)))),
			make("tbody", {}, ...rows.map((row) => make("tr", {}, make("th", {scope: "row"}, processName(row)), ...columns.map((peer) => {
				const bytes = sums.get(row + " " + peer);
				return make("td", {style: bytes ? `background: color-mix(in srgb, var(--transfers) ${Math.round(45 * bytes / most)}%, transparent)` : undefined},
					bytes === undefined ? "" : inBytes(bytes));
			}))))));
}
