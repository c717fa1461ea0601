/* SPDX-License-Identifier: Apache-2.0
 * Tables that are sorted by a click on a column's name and filtered by words. */
import {inCount, make, plural} from "./words.js";

const byWords = new Intl.Collator(undefined, {numeric: true});

/* Rows that are shown at first, and more at a time: a page of 100,000 rows is none. */
const FIRST = 100, MORE = 1000;

/* columns: {name, key (of a row, or a function of it), show (a function of the value and the row), number, link} */
export function table(id, caption, columns, rows, options = {}) {
	const value = (row, column) => typeof column.key === "function" ? column.key(row) : row[column.key];
	const shown = (row, column) => column.show ? column.show(value(row, column), row) : String(value(row, column) ?? "");
	const body = make("tbody");
	const count = make("span", {class: "soft", "aria-live": "polite"});
	let sorted = null, falling = true, limit = FIRST, filter = "";
	const more = make("button", {type: "button"});
	const heads = columns.map((column) => {
		const button = make("button", {type: "button"}, column.name);
		const head = make("th", {scope: "col", class: column.number ? "number" : undefined, "aria-sort": "none"}, button);
		button.addEventListener("click", () => {
			falling = sorted === column ? !falling : Boolean(column.number);
			sorted = column;
			heads.forEach((other) => other.setAttribute("aria-sort", "none"));
			head.setAttribute("aria-sort", falling ? "descending" : "ascending");
			fill();
		});
		return head;
	});

	function compare(a, b) {
		const x = value(a, sorted), y = value(b, sorted);
		const order = typeof x === "number" && typeof y === "number" ? x - y : byWords.compare(String(x ?? ""), String(y ?? ""));
		return falling ? -order : order;
	}
	function fill() {
		const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
		let list = rows.filter((row) => {
			const text = columns.map((column) => shown(row, column)).join(" ").toLowerCase();
			return wanted.every((word) => text.includes(word));
		});
		if (sorted)
			list = list.slice().sort(compare);
		count.textContent = list.length === rows.length ? plural(rows.length, "row") :
			inCount(list.length) + " of " + plural(rows.length, "row");
		more.hidden = list.length <= limit;
		more.textContent = list.length - limit <= MORE ? "Show all" : "Show " + inCount(MORE) + " more";
		list = list.slice(0, limit);
		body.replaceChildren(...list.map((row) => make("tr", {}, ...columns.map((column, i) => {
			const text = shown(row, column);
			const link = column.link && column.link(row);
			return make(i === 0 && options.rowHeads ? "th" : "td", {
				class: column.number ? "number" : column.place ? "place" : undefined,
				scope: i === 0 && options.rowHeads ? "row" : undefined,
			}, link ? make("a", {href: link}, text) : text);
		}))));
	}
	more.addEventListener("click", () => {
		limit += MORE;
		fill();
	});
	const input = make("input", {type: "search", "aria-label": "Filter: " + caption, placeholder: "filter"});
	input.addEventListener("input", () => {
		filter = input.value;
		fill();
	});
	/* Paper has no buttons: all rows are printed, up to some 40 pages of them. */
	window.addEventListener("beforeprint", () => {
		if (rows.length > limit && rows.length <= 2 * MORE) {
			limit = rows.length;
			fill();
		}
	});
	fill();
	return make("div", {id}, make("div", {class: "tools"}, rows.length > 5 ? input : null, count, more),
		make("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": "Table: " + caption},
			make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, ...heads)), body)));
}
export const numbered = (name, key, show) => ({name, key, number: true, show: show || inCount});
