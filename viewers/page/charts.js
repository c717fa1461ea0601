/* SPDX-License-Identifier: Apache-2.0
 * Pictures of few numbers, as SVG, each with its numbers in words. */

function frame(width, height, label) {
	return make("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label});
}

/* points: [capacity, hits, time]; hits of total, on a logarithmic axis of capacities. */
function curve(points, total, knee, inWords, label) {
	const width = 480, height = 240, left = 48, bottom = 34, top = 12, right = 14;
	const svg = frame(width, height, label);
	const low = Math.log2(Math.max(1, points[0][0])), high = Math.max(low + 1, Math.log2(points[points.length - 1][0]));
	const x = (capacity) => left + (width - left - right) * (Math.log2(Math.max(1, capacity)) - low) / (high - low);
	const y = (hits) => height - bottom - (height - bottom - top) * hits / Math.max(1, total);
	for (let i = 0; i <= 4; i++) {
		const at = y(total * i / 4);
		svg.append(make("line", {class: "grid", x1: left, x2: width - right, y1: at, y2: at}),
			make("text", {x: left - 6, y: at + 4, "text-anchor": "end"}, 25 * i + " %"));
	}
	const steps = Math.max(1, Math.ceil((high - low) / 5));
	for (let exponent = Math.ceil(low); exponent <= high; exponent += steps)
		svg.append(make("text", {x: x(2 ** exponent), y: height - 14, "text-anchor": "middle"}, inWords(2 ** exponent)));
	let path = `M${x(points[0][0])} ${y(0)}`;
	let before = 0;
	for (const [capacity, hits] of points) {
		path += `L${x(capacity)} ${y(before)}L${x(capacity)} ${y(hits)}`;
		before = hits;
	}
	path += `L${width - right} ${y(before)}`;
	svg.append(make("path", {d: path, fill: "none", stroke: "var(--registrations)", "stroke-width": 2.5}));
	if (knee !== null)
		svg.append(make("line", {x1: x(knee), x2: x(knee), y1: top, y2: height - bottom, stroke: "var(--text)", "stroke-dasharray": "4 3"}),
			make("text", {x: Math.min(x(knee) + 4, width - 130), y: height - bottom - 6}, "95 % at " + inWords(knee)));
	return svg;
}

/* sizes: [bytes, count, moved] */
function histogram(sizes, label) {
	const width = 480, row = 20, left = 80;
	const most = Math.max(...sizes.map((size) => size[1]));
	const svg = frame(width, sizes.length * row + 6, label);
	sizes.forEach(([bytes, count, moved], i) => {
		const long = Math.max(1, (width - left - 170) * count / most);
		svg.append(make("text", {x: left - 6, y: i * row + 15, "text-anchor": "end"}, "≤ " + inBytes(bytes)),
			make("rect", {x: left, y: i * row + 3, width: long, height: row - 5, fill: "var(--transfers)"}),
			make("text", {x: left + long + 5, y: i * row + 15}, inCount(count) + " (" + inBytes(moved) + ")"));
	});
	return svg;
}

/* Bytes from each process to each of its peers: numbers, shaded by how many. */
function matrix(peers) {
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
