/* SPDX-License-Identifier: Apache-2.0
 * The page: sections of the report, a page for each place, and the timeline when it is unpacked. */
import {curve, histogram, matrix} from "./charts.js";
import {numbered, table} from "./tables.js";
import {Timeline} from "./timeline.js";
import {decode, inflated} from "./unpack.js";
import {inBytes, inCount, inPercent, inTime, make, plural} from "./words.js";

const report = JSON.parse(document.getElementById("report").textContent);
const extra = JSON.parse(document.getElementById("extra").textContent);
const byId = (id) => document.getElementById(id);

function processName(index) {
	const process = report.processes[index];
	return process.rank >= 0 ? "rank " + process.rank : "pid " + process.pid;
}
const siteKey = (site) => site.rule + "\n" + site.class + "\n" + site.place;
const allSites = report.sites.map((site, i) => ({...site, id: "site/" + i}))
	.concat(report.registrations.sites.map((site, i) => ({...site, id: "registration/" + i, rule: "", class: "registration"})));
const siteOf = new Map(allSites.map((site) => [siteKey(site), site]));
const siteLink = (site) => "#" + site.id;

const sections = [];
function section(id, title, ...content) {
	const kept = content.filter((one) => one);
	if (!kept.length)
		return;
	sections.push({id, title});
	byId("overview").append(make("section", {id, "aria-labelledby": id + "-title"}, make("h2", {id: id + "-title", tabindex: -1}, title), ...kept));
}
function facts(...pairs) {
	return make("dl", {class: "facts"}, ...pairs.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

/* --- sections ------------------------------------------------------------------------------------- */

function header() {
	const commands = [...new Set(report.processes.map((process) => process.command))].slice(0, 4), totals = report.totals;
	byId("command").textContent = commands.join("\n");
	byId("about").textContent = plural(report.processes.length, "process", "processes") + ", " + inTime(totals.wall_ns) + ", " +
		plural(totals.events, "event") + (report.simulated ? " (simulated CUDA driver)" : "") + (report.run ? ", run " + report.run : "");
	byId("version").textContent = extra.version;
	document.title = "Waylay: " + (commands[0] || "report");
	if (!report.complete) {
		byId("incomplete").hidden = false;
		byId("incomplete").textContent = "Something is missing from the recordings: counts are at least what is shown. " +
			report.processes.filter((process) => !process.complete)
				.map((process) => `pid ${process.pid}: ` + (Object.entries(process.drops).map(([why, count]) => inCount(count) + " " + why).join(", ") || "damaged")).join("; ");
	}
}

function summary() {
	const totals = report.totals, costly = allSites.slice().sort((a, b) => b.held_ns - a.held_ns).slice(0, 3);
	const list = make("ol", {class: "costly"}, ...costly.map((site) => {
		const what = site.class === "registration" ? "memory registration" : site.class === "stages" ? "staged call" : "synchronization";
		return make("li", {class: site.class}, make("div", {}, plural(site.count, what) + " held the host " + inTime(site.held_ns) + ": ",
			make("a", {href: siteLink(site)}, site.place)),
		site.condition ? make("div", {class: "soft"}, site.rule + ": " + site.condition) : null,
		make("div", {class: "remedy"}, site.class === "registration" ? (site.repeated ? plural(site.repeated, "of them was", "of them were") + " of a range registered before: keep registrations in a cache" : "register once, before the first step") : site.remedy));
	}));
	section("summary", "Summary",
		facts(["Synchronizations", inCount(totals.synchronizations)], ["Host held", inTime(totals.held_ns) + " (" + inPercent(totals.held_ns, totals.wall_ns * report.processes.length) + ")"],
			["Staged copies", inCount(totals.staged)], ["Launches", inCount(totals.launches)], ["Registrations", inCount(report.registrations.count)],
			["Transfers", inCount(totals.posts)]),
		costly.length ? make("h3", {}, "Costliest") : null, costly.length ? list : make("p", {}, "Nothing held the host."));
}

const placeColumn = {name: "Place", key: "place", place: true, link: siteLink};
function sites(cls, id, title) {
	const rows = allSites.filter((site) => site.class === cls);
	const columns = [placeColumn, {name: "Rule", key: "rule"}, numbered("Count", "count"), numbered("Held", "held_ns", inTime),
		numbered("Share", "held_ns", (ns) => inPercent(ns, report.totals.held_ns)), numbered("p50", "held_p50_ns", inTime),
		numbered("p99", "held_p99_ns", inTime), numbered("Bytes", "bytes", (bytes) => bytes ? inBytes(bytes) : "-")];
	if (report.devices.length)
		columns.push(numbered("Device idle", "device_idle_ns", (ns) => ns ? inTime(ns) : "-"));
	section(id, title, rows.length ? table(id + "-table", title + " by place", columns, rows, {rowHeads: true}) : null);
}

function steps() {
	const is = report.steps;
	if (!is.source)
		return;
	const text = is.source === "range" ? `${plural(is.count, "step")}: the range “${is.range}”.` :
		`${plural(is.count, "step")}, found where a sequence of ${is.launches_each} launches begins again.`;
	section("steps", "Steps", make("p", {}, text),
		is.straggler ? make("p", {class: "remedy"}, `The others wait for ${processName(is.straggler.process)}: it is busy ${inTime(is.straggler.longer_busy_ns)} longer in each step than the median of them.`) : null,
		table("steps-table", "Medians of each process's steps", [{name: "Process", key: (row) => row.process, show: processName}, numbered("Steps", "steps"),
			numbered("Length", "length_p50_ns", inTime), numbered("Busy", "busy_p50_ns", inTime), numbered("Held", "held_p50_ns", inTime), numbered("Network", "network_p50_ns", inTime),
			numbered("Syncs", "synchronizations_p50"), numbered("Staged", "staged_p50"), numbered("Registrations", "registrations_p50"), numbered("Launches", "launches_p50")], is.processes, {rowHeads: true}),
		is.outliers.length ? table("outliers-table", `Steps much longer than the median (the longest of ${inCount(is.outliers_total)})`, [numbered("Step", "step"), {name: "Process", key: "process", show: processName},
			numbered("Length", "length_ns", inTime), numbered("Longer", "longer_ns", inTime), numbered("Held", "held_ns", inTime), numbered("Network", "network_ns", inTime),
			numbered("Syncs", "synchronizations"), numbered("Launches", "launches"), {name: "Longest wait", key: (row) => row.longest_place ? inTime(row.longest_ns) + " at " + row.longest_place : "-", place: true}], is.outliers) : null);
}

function ranges() {
	section("ranges", "Ranges", report.ranges.length ? table("ranges-table", "NVTX ranges", [{name: "Range", key: "name", place: true}, numbered("Instances", "instances"),
		numbered("Syncs each", (row) => row.instances ? row.synchronizations / row.instances : 0, (each) => each.toFixed(1)), numbered("Worst", "synchronizations_worst"), numbered("Staged", "staged"),
		numbered("Registrations", "registrations"), numbered("Held", "held_ns", inTime), numbered("Length p50", "length_p50_ns", inTime), numbered("p99", "length_p99_ns", inTime)], report.ranges, {rowHeads: true}) : null);
}

function devices() {
	section("devices", "Devices", report.devices.length ? table("devices-table", "What devices did", [{name: "Device", key: "device"}, numbered("Kernels", "kernels"), numbered("Copies", "copies"),
		numbered("Span", "span_ns", inTime), numbered("Busy", "busy_ns", inTime), numbered("Copying", "copy_busy_ns", inTime), numbered("Idle because of waits", "idle_by_waits_ns", inTime)], report.devices) : null);
}

function copies() {
	section("copies", "Copies", report.copies.length ? table("copies-table", "Copies by kind of memory", [{name: "From", key: "from"}, {name: "To", key: "to"}, {name: "Host", key: "class", show: (cls) => cls === "device_only" ? "asynchronous" : cls},
		numbered("Count", "count"), numbered("Bytes", "bytes", inBytes), numbered("Held", "held_ns", inTime)], report.copies) : null);
}

function detours() {
	const is = report.detours, words = {copied_out: "copied to the host, then sent", copied_in: "received, then copied to the device", mapped_out: "sent from pinned memory that no copy had filled",
		mapped_in: "received into pinned memory that no copy emptied", in_provider: "copied inside libfabric calls"};
	const rows = Object.keys(words).filter((kind) => is[kind].bytes).map((kind) => ({...is[kind], way: words[kind]}));
	if (!rows.length)
		return;
	section("detours", "Detours through host memory",
		table("detours-table", "Bytes of the device that went through host memory", [{name: "Way", key: "way"}, numbered("Bytes", "bytes", inBytes), numbered("Transfers", "transfers"), numbered("Copies", "copies"), numbered("Held", "held_ns", inTime)], rows, {rowHeads: true}),
		make("p", {class: "soft"}, "By address; that the host rewrote the memory in between cannot be excluded." + (is.why ? " " + is.why + "." : "")),
		is.save_ns ? make("p", {class: "remedy"}, "Going directly would save about " + inTime(is.save_ns) + " of copies.") : null,
		is.sites.length ? table("detour-sites-table", "Where these copies are made", [{name: "Place", key: "place", place: true, link: (row) => siteOf.has(siteKey(row)) ? siteLink(siteOf.get(siteKey(row))) : undefined},
			numbered("Copies", "count"), numbered("Bytes", "bytes", inBytes), numbered("Held", "held_ns", inTime)], is.sites) : null);
}

function registrations() {
	const is = report.registrations, cache = is.cache;
	if (!is.count && !is.failed)
		return;
	const charts = make("div", {class: "charts"});
	for (const [points, knee, words, by] of [[cache.by_entries, cache.knee_entries, inCount, "entries"], [cache.by_bytes, cache.knee_bytes, inBytes, "bytes"]])
		if (points.length)
			charts.append(make("figure", {}, curve(points, is.repeated, knee, words, `Hits of a least-recently-used cache by ${by}: ` +
				points.filter((_, i) => i % Math.ceil(points.length / 6) === 0).map(([capacity, hits]) => `${words(capacity)}: ${inPercent(hits, is.repeated)}`).join(", ")),
			make("figcaption", {}, `Of ${plural(is.repeated, "registration")} of ranges registered before, what a cache bounded by ${by} would have saved in each process (at most)`)));
	section("registrations", "Memory registrations",
		facts(["Count", inCount(is.count)], ["Took", inTime(is.time_ns)], ["Of ranges registered before", inCount(is.repeated)], ["Bytes", inBytes(is.bytes)], ["Most at once", inBytes(is.peak_bytes)],
			["Kept for (p50)", inTime(is.lifetime_p50_ns)], ["Live at the end", inCount(is.live)], ...(is.failed ? [["Failed", inCount(is.failed)]] : [])),
		charts.childElementCount ? charts : null,
		table("registrations-table", "Registrations by place", [placeColumn, numbered("Count", "count"), numbered("Again", "repeated"), numbered("Time", "held_ns", inTime), numbered("Bytes", "bytes", inBytes)],
			allSites.filter((site) => site.class === "registration"), {rowHeads: true}));
}

function transfers() {
	if (!report.transfers.length)
		return;
	const network = report.network, charts = make("div", {class: "charts"});
	for (const one of report.transfers)
		charts.append(make("figure", {}, histogram(one.sizes, `Sizes of ${one.operation}: ` + one.sizes.map(([bytes, count]) => `${inCount(count)} of at most ${inBytes(bytes)}`).join(", ")),
			make("figcaption", {}, `Sizes of ${one.operation}: ${inCount(one.count)} transfers, ${inBytes(one.bytes)}`)));
	section("transfers", "Transfers",
		facts(["Network idle", inTime(network.idle_ns) + " of " + inTime(network.span_ns)], ["Most in flight", inBytes(network.peak_bytes_in_flight)], ["Empty polls", inCount(report.totals.empty_polls)]),
		table("transfers-table", "Transfers by operation", [{name: "Operation", key: "operation"}, numbered("Count", "count"), numbered("Bytes", "bytes", inBytes), numbered("Latency p50", "latency_p50_ns", inTime),
			numbered("p99", "latency_p99_ns", inTime), numbered("Retries", "retries"), numbered("Unfinished", "unfinished"), numbered("Failed", "failed")], report.transfers, {rowHeads: true}),
		charts, matrix(report.peers, processName),
		table("peers-table", "Transfers by process, operation and peer", [{name: "Process", key: "process", show: processName}, {name: "Operation", key: "operation"},
			{name: "Peer", key: "peer", show: (peer) => peer === null ? "any" : String(peer)}, numbered("Count", "count"), numbered("Bytes", "bytes", inBytes),
			numbered("Bandwidth", (row) => row.busy_ns ? row.bytes * 1e9 / row.busy_ns : 0, (rate) => inBytes(rate) + "/s"), numbered("Latency p50", "latency_p50_ns", inTime), numbered("p99", "latency_p99_ns", inTime)], report.peers));
}

function unreturned() {
	section("unreturned", "Never returned", report.unreturned.length ? table("unreturned-table", "Calls that had not returned", [{name: "Call", key: "call"}, {name: "pid", key: "pid"},
		numbered("For at least", "held_ns", inTime), {name: "Place", key: "place", place: true}], report.unreturned) : null);
}

function processes() {
	section("processes", "Processes", table("processes-table", "Processes", [{name: "Process", key: (row) => row.rank >= 0 ? "rank " + row.rank : "pid " + row.pid}, {name: "Host", key: "host"},
		numbered("pid", "pid", String), {name: "Complete", key: (row) => row.complete ? "yes" : "no"}, {name: "Command", key: "command", place: true}], report.processes));
}

/* --- a place ------------------------------------------------------------------------------------- */

function source(site) {
	const lines = extra.sources[site.file + ":" + site.line];
	if (!lines)
		return make("p", {class: "soft"}, site.file ? "Its source was not to be read where this page was made." : "Its source is not known.");
	const block = make("pre", {class: "source", tabindex: 0, "aria-label": "Source"});
	lines.text.forEach((line, i) => block.append(make("span", lines.first + i === site.line ? {class: "here"} : {},
		String(lines.first + i).padStart(6) + (lines.first + i === site.line ? " > " : "   ") + line)));
	return make("div", {}, lines.newer ? make("p", {class: "warning"}, "The file was changed after the recording: lines may be others.") : null, block);
}

function detail(site) {
	const inside = report.ranges.map((range) => ({name: range.name, instances: range.instances,
		places: range.places.filter((one) => one.place === site.place && (one.rule === site.rule || site.class === "registration") && one.class === site.class)}))
		.filter((range) => range.places.length)
		.map((range) => ({...range, count: range.places.reduce((sum, one) => sum + one.count, 0), held_ns: range.places.reduce((sum, one) => sum + one.held_ns, 0)}));
	byId("detail").replaceChildren(
		make("p", {}, make("a", {href: "#" + (site.class === "registration" ? "registrations" : site.class === "stages" ? "staged" : "synchronizations")}, "← All places")),
		make("h2", {tabindex: -1, id: "detail-title"}, site.place),
		site.condition ? make("p", {}, `${site.rule}: ${site.condition}.`) : null,
		site.remedy ? make("p", {class: "remedy"}, "→ " + site.remedy) : null,
		facts(["Count", inCount(site.count)], ["Held", inTime(site.held_ns)], ["p50", inTime(site.held_p50_ns)], ["p99", inTime(site.held_p99_ns)], ["Longest", inTime(site.held_max_ns)], ...(site.bytes ? [["Bytes", inBytes(site.bytes)]] : [])),
		make("p", {class: "soft"}, "Calls: " + site.calls.join(", ")), source(site),
		table("ways-table", "Called from", [{name: "Caller", key: (row) => row.called_from || "(no caller known)", place: true}, numbered("Count", "count"), numbered("Held", "held_ns", inTime)], site.ways),
		inside.length ? table("inside-table", "In ranges", [{name: "Range", key: "name"}, numbered("Count", "count"), numbered("For each", (row) => row.instances ? row.count / row.instances : 0, (each) => each.toFixed(2)), numbered("Held", "held_ns", inTime)], inside) : "");
}

function route() {
	const site = allSites.find((one) => "#" + one.id === location.hash);
	byId("overview").hidden = Boolean(site);
	byId("detail").hidden = !site;
	if (site) {
		detail(site);
		window.scrollTo(0, 0);
		byId("detail-title").focus({preventScroll: true});
	} else if (location.hash.length > 1) {
		const target = byId(location.hash.slice(1));
		if (target)
			target.scrollIntoView();
	}
}

/* --- timeline ------------------------------------------------------------------------------------ */

async function timeline() {
	const data = extra.timeline, words = byId("timeline-state");
	if (!data.tracks.length)
		return;
	if (typeof DecompressionStream === "undefined") {
		words.textContent = "This browser is too old for the timeline (it has no DecompressionStream); the tables hold all numbers.";
		return;
	}
	const kinds = [...new Set(data.tracks.map((track) => track.kind))], filter = byId("timeline-kinds");
	await decode(await inflated(byId("events").textContent), data.tracks);
	byId("events").remove();
	const all = data.tracks;
	const view = window.waylayTimeline = new Timeline(data, {box: byId("chart-box"), canvas: byId("chart"), space: byId("chart-space"), tip: byId("tip")}, (name) => {
		const site = siteOf.get(name.site);
		if (site)
			location.hash = siteLink(site);
	});
	filter.append(...kinds.map((kind) => {
		const box = make("input", {type: "checkbox", checked: true});
		box.addEventListener("change", () => {
			view.hidden = view.hidden || new Set();
			view.hidden[box.checked ? "delete" : "add"](kind);
			view.tracks = all.filter((track) => !view.hidden.has(track.kind));
			view.later();
		});
		return make("li", {}, make("label", {}, box, " ", make("span", {style: `background: var(--${kind})`}), kind));
	}));
	for (const [id, action] of [["zoom-in", () => view.zoom(0.5)], ["zoom-out", () => view.zoom(2)], ["zoom-all", () => view.show(0, data.length_ns)]])
		byId(id).addEventListener("click", action);
	words.textContent = plural(all.reduce((sum, track) => sum + track.count, 0), "event") + (data.left_out ? "; " + inCount(data.left_out) + " shorter than " + inTime(data.least_ns) + " are left out" : "") + ".";
	byId("timeline-body").hidden = false;
	view.later();
}

header();
summary();
if (extra.timeline.tracks.length)
	section("timeline", "Timeline", make("p", {id: "timeline-state", role: "status"}, "Unpacking…"), make("div", {id: "timeline-body", hidden: true},
		make("div", {class: "tools"}, make("button", {type: "button", id: "zoom-in"}, "Zoom in"), make("button", {type: "button", id: "zoom-out"}, "Zoom out"), make("button", {type: "button", id: "zoom-all"}, "All"),
			make("span", {class: "soft"}, "Drag to move; once it has the focus the wheel or + and − zoom, arrow keys move; up, down, comma and period go from event to event, Enter or a click opens the place.")),
		make("ul", {class: "legend", id: "timeline-kinds", "aria-label": "Rows that are shown"}),
		make("div", {id: "chart-box"},
			make("canvas", {id: "chart", tabindex: 0, role: "application", "aria-describedby": "tip", "aria-label": "Timeline of synchronizations, copies, transfers and registrations by process and thread; the tables on this page hold the same in numbers"}),
			make("div", {id: "chart-space"})),
		make("div", {id: "tip", role: "status"})));
sites("waits", "synchronizations", "Synchronizations");
sites("stages", "staged", "Staged copies");
steps();
ranges();
devices();
copies();
detours();
registrations();
transfers();
unreturned();
processes();
byId("sections").append(...sections.map(({id, title}) => make("li", {}, make("a", {href: "#" + id}, title))));
window.addEventListener("hashchange", route);
route();
performance.mark("waylay-shown");
/* The events come after this script: all else is shown before they are read. */
function unpack() {
	requestAnimationFrame(() => setTimeout(() => timeline().catch((error) => {
		byId("timeline-state").textContent = "The timeline cannot be shown: " + error.message;
	}), 0));
}
if (document.readyState === "loading")
	document.addEventListener("DOMContentLoaded", unpack);
else
	unpack();
