# SPDX-License-Identifier: Apache-2.0
"""Opens a report page from disk and uses it:  page.py PAGE REPORT.json [PICTURES]"""
import itertools
import json
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from browser import Browser  # noqa: E402

page, report = os.path.abspath(sys.argv[1]), json.load(open(sys.argv[2]))
pictures = sys.argv[3] if len(sys.argv) > 3 else None


def rows(browser, table, column):
    return browser.run(f"[...document.querySelectorAll('#{table} tbody tr')].map((row) => row.children[{column}].textContent)")


def check_colours(palette):
    """No two kinds of bar alike, as eyes without one sort of cone see them; WCAG's contrast of words on them."""
    # Severe forms, after Machado, Oliveira and Fernandes (2009).
    seen_by = {
        "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
        "protanopes": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
        "deuteranopes": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
        "tritanopes": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
    }

    def linear(text):
        text = "".join(2 * one for one in text[1:]) if len(text) == 4 else text[1:]
        return [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (int(text[i:i + 2], 16) / 255 for i in (0, 2, 4))]

    def times(matrix, vector):
        return [sum(a * b for a, b in zip(row, vector)) for row in matrix]

    def lab(rgb):
        x, y, z = [v / white for v, white in zip(times(((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)), rgb), (0.9505, 1, 1.089))]
        x, y, z = [v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z)]
        return 116 * y - 16, 500 * (x - y), 200 * (y - z)

    bars = [name for name in palette if not name.endswith("-text")]
    for who, matrix in seen_by.items():
        seen = {name: lab([min(1, max(0, one)) for one in times(matrix, linear(palette[name]))]) for name in bars}
        for a, b in itertools.combinations(bars, 2):
            apart = math.dist(seen[a], seen[b])
            assert apart > 15, (who, a, b, apart)
    for name in bars:
        light, dark = sorted((sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear(palette[one])))) for one in (name, name + "-text"))[::-1]
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, light, dark)


for dark in False, True:
    browser = Browser(dark=dark)
    try:
        browser.open("file://" + page)
        browser.until("document.getElementById('timeline-body') && !document.getElementById('timeline-body').hidden && waylayTimeline.drawn > 0")
        if pictures:
            browser.picture(f"{pictures}/top-{'dark' if dark else 'light'}.png")

        # What is shown is the report.
        waits = [site for site in report["sites"] if site["class"] == "waits"]
        assert rows(browser, "synchronizations-table", 0) == [site["place"] for site in waits][:100]
        text = browser.run("document.body.innerText")
        assert all(site["place"] in text and site["remedy"] in text for site in report["sites"][:3])

        # Sorting: by count, the other way, by place; said to screen readers too.
        def head(name):
            return ("[...document.querySelectorAll('#synchronizations-table th')].find((one) => one.textContent.startsWith('%s'))" % name)
        browser.run(f"{head('Count')}.id = 'count-head'")
        browser.click("#count-head button")
        counts = [int(one.replace(",", "")) for one in rows(browser, "synchronizations-table", 2)]
        assert counts == sorted((site["count"] for site in waits), reverse=True), counts
        assert browser.run(f"{head('Count')}.getAttribute('aria-sort')") == "descending"
        browser.click("#count-head button")
        assert [int(one.replace(",", "")) for one in rows(browser, "synchronizations-table", 2)] == sorted(counts)
        assert browser.run(f"{head('Count')}.getAttribute('aria-sort')") == "ascending"

        # Filtering.
        word = waits[0]["rule"]
        browser.click("#synchronizations-table input")
        browser.type(word)
        left = rows(browser, "synchronizations-table", 1)
        assert len(left) == sum(word in site["rule"] + site["place"] for site in waits) < len(waits), left
        browser.run("(() => { const input = document.querySelector('#synchronizations-table input'); input.value = ''; input.dispatchEvent(new Event('input')); })()")

        # A place's page by a click: its line of source, and back.
        with_source = next(i for i, site in enumerate(report["sites"]) if site["line"] and os.path.isfile(site["file"] or ""))
        site = report["sites"][with_source]
        browser.run(f"document.querySelector('#overview a[href=\"#site/{with_source}\"]').id = 'to-site'")
        browser.click("#to-site")
        browser.until("!document.getElementById('detail').hidden")
        assert browser.run("document.querySelector('#detail h2').textContent") == site["place"]
        assert browser.run("document.activeElement.id") == "detail-title"
        line = open(site["file"]).read().splitlines()[site["line"] - 1].strip()
        assert line.replace("\t", " ") in browser.run("document.querySelector('.source .here').textContent"), line
        assert sum(int(one.replace(",", "")) for one in rows(browser, "ways-table", 1)) == site["count"]
        if pictures:
            browser.picture(f"{pictures}/site-{'dark' if dark else 'light'}.png")
        browser.click("#detail a")
        browser.until("document.getElementById('detail').hidden && !document.getElementById('overview').hidden")

        # The timeline: zoom by button, key and wheel; drag; a click on a wait opens its place.
        whole = browser.run("waylayTimeline.to - waylayTimeline.from")
        browser.click("#zoom-in")
        assert browser.run("waylayTimeline.to - waylayTimeline.from") == whole / 2
        browser.run("document.getElementById('chart').focus()")
        browser.key("+")
        assert browser.run("waylayTimeline.to - waylayTimeline.from") == whole / 4
        x, y, left, top, width, height = browser.place("#chart")
        browser.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=-120)
        browser.until(f"Math.abs(waylayTimeline.to - waylayTimeline.from - {whole / 5}) < 2")
        before = browser.run("waylayTimeline.from")
        browser.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, button="left", clickCount=1)
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + 100, y=y, button="left", buttons=1)
        browser.call("Input.dispatchMouseEvent", type="mouseReleased", x=x + 100, y=y, button="left", clickCount=1)
        assert browser.run("waylayTimeline.from") < before
        browser.click("#zoom-all")
        assert browser.run("waylayTimeline.to - waylayTimeline.from") == whole
        # The longest wait of the recording, in the middle of the picture.
        browser.run("""(() => { const view = waylayTimeline; let best = null;
            for (const track of view.tracks.filter((one) => one.kind === "waits"))
                track.row.begin.forEach((begin, i) => { const length = track.row.end[i] - begin;
                    if (!best || length > best.length) best = {track, begin, length, i}; });
            view.show(best.begin - best.length, best.begin + 2 * best.length); window.longest = best; })()""")
        browser.until("!waylayTimeline.pending")
        row = browser.run("waylayTimeline.rowAt(waylayTimeline.tracks.indexOf(longest.track))")
        x, y, left, top, width, height = browser.place("#chart")
        at = browser.run("waylayTimeline.left")
        middle = left + at + (width - at) * browser.run("(longest.begin + longest.length / 2 - waylayTimeline.from) / (waylayTimeline.to - waylayTimeline.from)")
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=middle, y=top + row)
        said = browser.run("document.getElementById('tip').textContent")
        assert browser.run("waylayTimeline.data.names[longest.track.row.names[longest.i]].label") in said, said
        browser.click_at(middle, top + row)
        browser.until("!document.getElementById('detail').hidden")
        place = browser.run("document.querySelector('#detail h2').textContent")
        assert place in browser.run("waylayTimeline.data.names[longest.track.row.names[longest.i]].place"), place

        # By the keyboard alone: from row to row and event to event, said in words, to the place.
        browser.run("location.hash = ''")
        browser.until("document.getElementById('detail').hidden")
        browser.run("document.getElementById('chart').focus()")
        kinds = browser.run("waylayTimeline.tracks.length")
        waits_row = browser.run("waylayTimeline.tracks.findIndex((one) => one.kind === 'waits')")
        for key in ["PageUp"] * (1 + kinds // 10) + ["ArrowDown"] * waits_row:
            browser.key(key)
        assert browser.run("waylayTimeline.tracks.indexOf(waylayTimeline.chosen.track)") == waits_row
        index, last = browser.run("[waylayTimeline.chosen.index, waylayTimeline.chosen.track.count - 1]")
        browser.key(".")
        assert browser.run("waylayTimeline.chosen.index") == min(index + 1, last)
        assert browser.run("waylayTimeline.words(waylayTimeline.chosen) === document.getElementById('tip').textContent")
        browser.key(",")
        assert browser.run("waylayTimeline.chosen.index") == max(0, min(index, last - 1))
        browser.key("Enter")
        browser.until("!document.getElementById('detail').hidden")

        # A row's kind is hidden and shown.
        browser.run("location.hash = ''")
        browser.until("document.getElementById('detail').hidden")
        browser.click("#timeline-kinds li:nth-child(1) input")
        assert browser.run("waylayTimeline.tracks.length") < kinds
        browser.click("#timeline-kinds li:nth-child(1) input")
        assert browser.run("waylayTimeline.tracks.length") == kinds

        # Colours are told apart also by who sees fewer of them, and words on bars are read.
        palette = dict(browser.run("['waits', 'copies', 'transfers', 'registrations', 'ranges', 'device', 'waits-text', 'copies-text', 'transfers-text',"
                                   " 'registrations-text', 'ranges-text', 'device-text'].map((name) => [name, waylayTimeline.colour(name)])"))
        check_colours(palette)

        # Narrow, as a phone: nothing beyond the edge but tables, which scroll.
        browser.call("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=1, mobile=False)
        assert browser.run("document.documentElement.scrollWidth") <= 360
        if pictures:
            browser.picture(f"{pictures}/narrow-{'dark' if dark else 'light'}.png")
        browser.call("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)

        # Every table is named for screen readers, pictures have words, all can be reached by keys.
        browser.run("location.hash = ''")
        assert browser.run("[...document.querySelectorAll('table')].every((one) => one.caption && one.caption.textContent)")
        assert browser.run("[...document.querySelectorAll('table')].every((one) => [...one.tHead.querySelectorAll('th')].every((th) => th.scope === 'col'))")
        assert browser.run("[...document.querySelectorAll('svg[role=img], canvas')].every((one) => one.getAttribute('aria-label'))")
        assert browser.run("[...document.querySelectorAll('.scroll')].every((one) => one.tabIndex === 0)")

        # Words stand out from what is behind them (WCAG AA).
        contrast = browser.run("""(() => { const style = getComputedStyle(document.body), light = (text) => { const [r, g, b] = text.match(/\\d+/g)
            .map((one) => one / 255).map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
            const back = light(style.backgroundColor); return [style.color, getComputedStyle(document.querySelector('.soft')).color,
            getComputedStyle(document.querySelector('a')).color].map((one) => { const l = light(one); return (Math.max(l, back) + 0.05) / (Math.min(l, back) + 0.05); }); })()""")
        assert min(contrast) >= 4.5, contrast

        if not dark:
            paper = browser.call("Page.printToPDF", printBackground=False)
            assert len(paper["data"]) > 10000
        assert browser.complaints() == [], browser.complaints()
    finally:
        browser.close()
print("the page works: sorting, filtering, places, timeline, light and dark, paper")
