// SPDX-License-Identifier: Apache-2.0
//
// Makes the page's script, with the libraries in it and their licences before it:
//
//     node build.mjs NODE_MODULES OUT        (make viewers does it)
//
// The same sources and the same package-lock.json give the same bytes.
import {createHash} from "node:crypto";
import {readFileSync, readdirSync, writeFileSync} from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";
import {fileURLToPath} from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const [modules, out] = [path.resolve(process.argv[2]), path.resolve(process.argv[3])];
const {build} = createRequire(path.join(modules, "index.js"))("esbuild");

const done = await build({
	entryPoints: [path.join(here, "main.js")],
	absWorkingDir: here,
	nodePaths: [modules],
	bundle: true,
	write: false,
	metafile: true,
	format: "iife",
	target: "es2022",
	charset: "utf8",
	minify: true,
	legalComments: "none",
});

/* What went in: [name, version, licence text] of each package. */
const names = new Set();
for (const [file, output] of Object.entries(Object.values(done.metafile.outputs)[0].inputs)) {
	const name = file.match(/node_modules\/((?:@[^/]+\/)?[^/]+)\//);
	if (name && output.bytesInOutput)
		names.add(name[1]);
}
const packages = [...names].sort().map((name) => {
	const folder = path.join(modules, name);
	const {version, license} = JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8"));
	const file = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
	if (!file || !/^(ISC|MIT|BSD-[23]-Clause|Apache-2\.0)$/.test(license))
		throw new Error(`${name}: its licence (${license}) is not one that may be bundled, or has no text`);
	return {name: `${name} ${version}`, license, text: readFileSync(path.join(folder, file), "utf8").trim()};
});
const texts = new Map();
for (const one of packages)
	texts.set(one.text, [...(texts.get(one.text) || []), `${one.name} (${one.license})`]);

/* A test tells by it whether the sources were changed since. */
const hash = createHash("sha256");
for (const file of readdirSync(here).sort())
	if (/\.(js|mjs|json)$/.test(file) && file !== path.basename("built.js"))
		hash.update(readFileSync(path.join(here, file)));
const banner = ["/*! SPDX-License-Identifier: Apache-2.0 AND ISC",
	` * Made by \`make viewers\` of viewers/page; sources ${hash.digest("hex")}. It contains:`, " *"];
for (const [text, used] of texts)
	banner.push(...`${used.join(", ")}:\n\n${text}`.split("\n").map((line) => (" * " + line).trimEnd()), " *");
writeFileSync(out, banner.join("\n") + "/\n" + done.outputFiles[0].text);
