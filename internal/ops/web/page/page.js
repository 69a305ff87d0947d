// SPDX-License-Identifier: Apache-2.0
"use strict";

// What guests call themselves may be anything: text comes into the page by textContent alone.

const every = 1000; // ms between two looks
const most = 24; // clients in the drawing

const at = (id) => document.getElementById(id);

function make(space, tag, attributes, ...children) {
	const e = document.createElementNS(space, tag);
	for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
	for (const c of children) e.append(c); // a string becomes a text node
	return e;
}
const html = make.bind(null, "http://www.w3.org/1999/xhtml");
const svg = make.bind(null, "http://www.w3.org/2000/svg");

function scaled(v, base, units) {
	let i = 0;
	for (; Math.round(v) >= base && i < units.length - 1; i++) v /= base;
	return (i > 0 && v < 99.95 ? v.toFixed(1) : v.toFixed(0)) + units[i];
}
const bytes = (n) => scaled(n, 1024, [" B", " KiB", " MiB", " GiB", " TiB", " PiB"]);
const count = (n) => scaled(n, 1000, ["", "k", "M", "G", "T"]);

function time(s) {
	s = Math.max(0, Math.floor(s));
	if (s < 60) return `${s}s`;
	if (s < 3600) return `${Math.floor(s / 60)}m${s % 60}s`;
	if (s < 86400) return `${Math.floor(s / 3600)}h${Math.floor(s % 3600 / 60)}m`;
	return `${Math.floor(s / 86400)}d${Math.floor(s % 86400 / 3600)}h`;
}

const called = (c) => c.name || c.hostname || `client ${c.id}`;
const peer = (p) => p.known ? [p.user || p.uid, p.pid, p.command].filter((x) => x !== undefined && x !== "").join("/") : "";

function drops(c) {
	const by = {};
	let sum = 0;
	for (const way of [c.to_net.drops, c.to_client.drops])
		for (const [reason, n] of Object.entries(way || {})) {
			by[reason] = (by[reason] || 0) + n;
			sum += n;
		}
	const reasons = Object.entries(by).filter((x) => x[1] > 0).sort((a, b) => b[1] - a[1]);
	return sum === 0 ? "0" : `${count(sum)} (${reasons.map(([reason, n]) => `${reason.replace("drop_", "")}: ${count(n)}`).join(", ")})`;
}

// rates has bytes a second each way for the clients that were there at the look before; null for others.
function rates(s, before) {
	const took = before && before.daemon.pid === s.daemon.pid ? (Date.parse(s.now) - Date.parse(before.now)) / 1000 : 0;
	const old = new Map((before ? before.clients : []).map((c) => [c.id, c]));
	return new Map(s.clients.map((c) => {
		const b = old.get(c.id);
		if (!b || took <= 0) return [c.id, null];
		return [c.id, { out: Math.max(0, c.to_net.bytes - b.to_net.bytes) / took, in: Math.max(0, c.to_client.bytes - b.to_client.bytes) / took }];
	}));
}

// table has a column for each of columns: title, what it shows of a row, and whether that is a number.
function table(rows, empty, columns) {
	if (rows.length === 0) return html("p", { class: "none" }, empty);
	const kind = (c) => c[2] ? { class: "number" } : {};
	return html("table", {},
		html("thead", {}, html("tr", {}, ...columns.map((c) => html("th", kind(c), c[0])))),
		html("tbody", {}, ...rows.map((r) => html("tr", {}, ...columns.map((c) => html("td", kind(c), String(c[1](r) ?? "")))))));
}

function health(problems) {
	if (problems.length === 0) return [html("p", { class: "good" }, "nothing to report")];
	return problems.map((p) => html("div", { class: `problem ${p.severity}` },
		html("p", {}, html("strong", {}, `${p.severity}: `), p.text),
		...p.fix.map((step) => step.startsWith("    ") ? html("pre", {}, step.trim()) : html("p", {}, step))));
}

const thick = (rate) => rate > 0 ? Math.min(10, 1 + Math.log10(1 + rate)) : 1;

// drawing shows the clients around their network. A client's two lines are as thick as what it sends and gets is much.
function drawing(s, rate) {
	const width = 900, height = 380, shown = s.clients.slice(0, most), parts = [], labels = [];
	shown.forEach((c, i) => {
		const angle = 2 * Math.PI * i / shown.length - Math.PI / 2, cos = Math.cos(angle), sin = Math.sin(angle);
		const x = width / 2 + 340 * cos, y = height / 2 + 135 * sin, r = rate.get(c.id);
		const long = Math.hypot(x - width / 2, y - height / 2), dx = -(y - height / 2) / long * 5, dy = (x - width / 2) / long * 5;
		for (const [way, side] of [["out", 1], ["in", -1]]) {
			const v = r ? r[way] : 0;
			parts.push(svg("line", {
				class: v > 0 ? way : "", "stroke-width": thick(v), x1: x + side * dx, y1: y + side * dy, x2: width / 2 + side * dx, y2: height / 2 + side * dy,
			}));
		}
		labels.push(svg("circle", { class: c.state === "running" || c.state === "quiet" ? "" : "unwell", cx: x, cy: y, r: 9 }));
		labels.push(svg("text", { x, y: y + (sin > 0.01 ? 26 : -28) }, short(called(c))));
		labels.push(svg("text", { class: "small", x, y: y + (sin > 0.01 ? 40 : -14) }, r ? `sends ${bytes(r.out)}/s, gets ${bytes(r.in)}/s` : c.state));
	});
	labels.push(svg("circle", { cx: width / 2, cy: height / 2, r: 58 }));
	labels.push(svg("text", { x: width / 2, y: height / 2 }, s.network.mode));
	labels.push(svg("text", { class: "small", x: width / 2, y: height / 2 + 15 }, s.network.subnet || s.network.backend));
	if (s.clients.length > most) labels.push(svg("text", { class: "small", x: width / 2, y: height - 6 }, `and ${s.clients.length - most} more`));
	at("drawing").setAttribute("viewBox", `0 0 ${width} ${height}`);
	at("drawing").replaceChildren(...parts, ...labels);
}

function short(text) {
	const runes = [...text];
	return runes.length > 24 ? runes.slice(0, 23).join("") + "…" : text;
}

function show(s, before) {
	const rate = rates(s, before), n = s.network, d = s.daemon;
	const each = (way) => (c) => rate.get(c.id) ? bytes(rate.get(c.id)[way]) + "/s" : "";
	document.title = `${s.clients.length} clients, ${s.health.length || "no"} problem${s.health.length === 1 ? "" : "s"}: ${d.socket}`;
	at("title").textContent = d.socket;
	at("about").textContent = [
		`socket_vmnet2 ${d.version}`, `${n.backend}, ${n.mode}, ${n.state}`, n.subnet && `${n.subnet}, gateway ${n.gateway}`,
		`process ${d.pid}`, `up ${time(d.uptime_s)}`, `${s.clients.length} of ${d.max_clients} clients`,
	].filter(Boolean).join(" · ");
	at("health").replaceChildren(...health(s.health));
	drawing(s, rate);
	at("clients").replaceChildren(table(s.clients, "no client is connected", [
		["ID", (c) => c.id, true], ["Name", (c) => c.name || c.hostname], ["IP", (c) => c.ip], ["MAC", (c) => c.mac], ["State", (c) => c.state],
		["Sends", each("out"), true], ["Gets", each("in"), true],
		["Sent", (c) => bytes(c.to_net.bytes), true], ["Got", (c) => bytes(c.to_client.bytes), true],
		["Drops", drops], ["Queue", (c) => bytes(c.queue.bytes), true], ["Since", (c) => time(c.age_s), true], ["Process", (c) => peer(c.peer)],
	]));
	at("leases").replaceChildren(table(n.dhcp?.leases || [], n.backend === "vmnet" ? "macOS's DHCP server leases the addresses" : "none is leased", [
		["IP", (l) => l.ip], ["MAC", (l) => l.mac], ["Name", (l) => l.name || l.hostname],
		["Expires in", (l) => l.reserved ? "reserved" : time((Date.parse(l.expires) - Date.parse(s.now)) / 1000), true],
	]));
}

let before = null;

async function look() {
	try {
		const answer = await fetch("status.json");
		if (!answer.ok) throw new Error(await answer.text());
		const s = await answer.json();
		show(s, before);
		before = s;
		at("trouble").hidden = true;
	} catch (err) {
		at("trouble").textContent = `what is below is old: ${err.message}`;
		at("trouble").hidden = false;
		before = null;
	}
	setTimeout(look, every);
}

look();
