# SPDX-License-Identifier: Apache-2.0
"""Opens a report page from disk and uses it:  page.py PAGE REPORT.json [PICTURES]"""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from browser import Browser  # noqa: E402

page, report = os.path.abspath(sys.argv[1]), json.load(open(sys.argv[2]))
pictures = sys.argv[3] if len(sys.argv) > 3 else None


def rows(browser, table, column):
    return browser.run(f"[...document.querySelectorAll('#{table} tbody tr')].map((row) => row.children[{column}].textContent)")


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
                track.levels[0].begin.forEach((begin, i) => { const length = track.levels[0].end[i] - begin;
                    if (!best || length > best.length) best = {track, begin, length, i}; });
            view.show(best.begin - best.length, best.begin + 2 * best.length); window.longest = best; })()""")
        browser.until("!waylayTimeline.pending")
        row = browser.run("26 + (waylayTimeline.tracks.indexOf(longest.track) + 0.5) * waylayTimeline.row")
        x, y, left, top, width, height = browser.place("#chart")
        middle = left + 210 + (width - 210) / 2
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=middle, y=top + row)
        said = browser.run("document.getElementById('tip').textContent")
        assert browser.run("waylayTimeline.data.names[longest.track.names[longest.i]].label") in said, said
        browser.click_at(middle, top + row)
        browser.until("!document.getElementById('detail').hidden")
        place = browser.run("document.querySelector('#detail h2').textContent")
        assert place in browser.run("waylayTimeline.data.names[longest.track.names[longest.i]].place"), place

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
