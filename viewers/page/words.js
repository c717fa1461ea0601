/* SPDX-License-Identifier: Apache-2.0
 * Numbers as words, as the text report has them; and making elements. */
function scaled(value, units, step) {
	let unit = 0;
	while (value >= step * 0.9995 && unit + 1 < units.length) {
		value /= step;
		unit++;
	}
	const digits = unit === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
	return value.toFixed(digits) + " " + units[unit];
}
export const inTime = (ns) => scaled(ns, ["ns", "us", "ms", "s"], 1000);
export const inBytes = (bytes) => scaled(bytes, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
export const inCount = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",");
export const inPercent = (part, whole) => whole ? (100 * part / whole).toFixed(1) + " %" : "-";
export const plural = (count, word, more) => inCount(count) + " " + (count === 1 ? word : more || word + "s");

/* make("td", {class: "number"}, "7", other) */
export function make(name, attributes, ...children) {
	const element = /^(svg|path|line|text|rect|circle|g|title)$/.test(name)
		? document.createElementNS("http://www.w3.org/2000/svg", name)
		: document.createElement(name);
	for (const [key, value] of Object.entries(attributes || {}))
		if (value !== undefined && value !== false)
			element.setAttribute(key, value === true ? "" : value);
	element.append(...children.filter((child) => child !== undefined && child !== null));
	return element;
}
