"""test_board.py - the board in a real browser.

Needs firnd and `firn` (in $FIRN_BUILD), chromium and chromedriver; skipped with a
word where there is no browser. Every wait ends by what the page shows.
"""
import os
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from scene import TOKEN, Forger, Scene, a_day  # noqa: E402
from webdriver import Browser, find_browser, wait_for  # noqa: E402

VIEWS = {"#/": "GPUs are at work", "#/jobs": "starts in", "#/jobs?state=running": "resnet50", "#/jobs?state=finished": "ended",
         "#/timeline": "Timeline", "#/users": "GPU hours", "#/plan": "What would happen?", "#/events": "was submitted by"}
HOSTILE = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>\"'&lt;\u202eevil\u2066"


def tearDownModule():
    if BoardCase.browser:
        BoardCase.browser.close()


def sign_in(browser, scene):
    browser.resize(1400, 900)
    browser.open(scene.board_link())
    browser.wait(".map .node")
    wait_for("the whole state is loaded", lambda: browser.count("#link.live") and browser.count("#views a") == 6)


@unittest.skipUnless(find_browser(), "there is no chromium with chromedriver")
class BoardCase(unittest.TestCase):
    """A firnd with a past for all cases of a class. The browser is one for all
    classes, as its start takes seconds: each scene has a port, and so an origin, of
    its own, and no class finds a session or console lines of another."""

    browser = None
    gpus, nodes, ngpus, nwaiting = "2x4:a100@80,1x4:v100@16", 3, 4, 4
    policy, shares = "fifo", None

    @classmethod
    def setUpClass(cls):
        cls.scene = Scene(cls.gpus, cls.policy)
        if cls.shares:
            path = os.path.join(cls.scene.folder, "shares.yaml")
            with open(path, "w") as file:
                file.write(cls.shares)
            cls.scene.arguments += ["--shares", path]
        cls.scene.start()
        cls.scene.forge(cls.make_past)
        BoardCase.browser = BoardCase.browser or Browser()

    @classmethod
    def make_past(cls, db, template):
        a_day(db, template, cls.nodes, cls.ngpus, nwaiting=cls.nwaiting)

    @classmethod
    def tearDownClass(cls):
        if cls.browser:
            cls.browser.open("about:blank")  # it asks this firnd no more
            cls.browser.console()
        cls.scene.close()

    def go(self, address):
        self.browser.js("location.hash = arguments[0]", address)

    def expect_clean(self, but=()):
        """Nothing was refused by the page's policy, and no script failed."""
        lines = [line for line in self.browser.console() if not any(word in line for word in but)]
        self.assertEqual(lines, [])


class SignIn(BoardCase):
    gpus, nodes, ngpus, nwaiting = "1x2:v100@16", 1, 2, 0

    def test_a_link_signs_in_once_and_a_token_signs_in(self):
        link = self.scene.board_link()
        self.browser.open(link)
        self.browser.wait(".map .node")
        self.assertNotIn("k=", self.browser.js("return location.href"))
        self.browser.open(self.scene.url + "/")
        self.browser.wait(".map .node")  # the session lives as long as the tab
        self.browser.click(".linkbtn")
        self.browser.wait(".signin")
        self.browser.open("about:blank")
        self.browser.open(link)
        self.browser.see("run 'firn board' again")
        self.browser.type(".signin input", "not-the-token-of-the-operator\ue007")
        self.browser.see("does not know this token")
        self.browser.js("document.querySelector('.signin input').value = ''")
        self.browser.type(".signin input", TOKEN + "\ue007")
        self.browser.wait(".map .node")
        stored = self.browser.js("return JSON.stringify(localStorage) + location.href + document.cookie")
        self.assertNotIn(TOKEN, stored)
        self.expect_clean(but=["401"])


class Stops(BoardCase):
    gpus, nodes, ngpus, nwaiting = "1x2:v100@16", 1, 2, 0
    policy, shares = "srtf", "slice: 0s\nprojects:\n  - {name: vision, share: 3}\n  - {name: speech}\n"

    @classmethod
    def make_past(cls, db, template):
        pass

    def test_a_stop_names_its_cause_and_shares_are_shown(self):
        sign_in(self.browser, self.scene)
        more = "project: speech\nrestart: allowed\nduration: "
        first = self.scene.submit("long", 2, more=more + "10h\n")
        wait_for("it runs", lambda: self.scene.get(f"/jobs/{first}")["state"] == "running")
        second = self.scene.submit("short", 2, more=more + "10m\n")
        wait_for("the short one runs", lambda: self.scene.get(f"/jobs/{second}")["state"] == "running")
        self.go(f"#/jobs/{first}")
        self.browser.see("by the policy, for short", ".events")
        self.browser.see("the policy, for short", "table.plain")
        self.go("#/users")
        self.browser.see("Shares and quotas")
        self.browser.see("vision")
        self.expect_clean()


class Views(BoardCase):
    def setUp(self):
        sign_in(self.browser, self.scene)

    def test_every_view_in_both_themes_and_three_widths(self):
        for width in (1400, 1024, 390):
            self.browser.resize(width, 900)
            for theme in ("light", "dark"):
                self.browser.js("document.documentElement.dataset.theme = arguments[0]", theme)
                for address, text in VIEWS.items():
                    self.go(address)
                    self.browser.see(text)
                    wide = self.browser.js("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
                    self.assertLessEqual(wide, 0, f"{address} at {width} pixels scrolls sideways")
        self.browser.resize(1400, 900)
        self.expect_clean()

    def test_numbers_are_those_of_the_api(self):
        self.go("#/jobs?state=waiting")
        waiting = self.scene.get("/jobs?state=pending&limit=1000")["jobs"]
        wait_for("all waiting jobs are shown", lambda: f"waiting {len(waiting)}" in self.browser.text())
        names = self.browser.js("return [...document.querySelectorAll('.rows .nm')].map(e => e.textContent)")
        self.assertEqual(sorted(names), sorted(job["name"] for job in waiting))
        positions = self.browser.js("return [...document.querySelectorAll('.rows .c-id')].map(e => e.textContent)")
        known = [int(p) for p in positions if p.isdigit()]
        self.assertEqual(known, sorted(known))

    def test_a_new_job_appears_and_can_be_cancelled(self):
        self.go("#/")
        job = self.scene.submit("newcomer", 1, more="duration: 10m\n")
        self.browser.see("newcomer")
        self.go(f"#/jobs/{job}")
        self.browser.see("newcomer", "h1")
        self.browser.click(".jh .btn.bad")
        self.browser.wait("dialog[open]")
        self.assertIn("nothing is lost", self.browser.text("dialog"))
        self.browser.click("dialog .btn.bad")
        self.browser.see("cancelled", ".pill")
        self.assertEqual(self.scene.get(f"/jobs/{job}")["state"], "cancelled")
        self.expect_clean()

    def test_the_page_of_a_running_job(self):
        job = wait_for("a job reports", lambda: next((j for j in self.scene.get("/jobs?state=running")["jobs"] if j.get("progress", 0) > 0), None))
        self.go(f"#/jobs/{job['id']}")
        self.browser.see("% done")
        for title in ("GPUs held", "Loss", "Throughput, samples/s", "Time of a step", "Memory of the fullest GPU"):
            wait_for(f"a chart of {title}", lambda t=title: t in self.browser.js("return [...document.querySelectorAll('.chart .title')].map(e => e.textContent)"))
        lines = wait_for("output", lambda: self.browser.count(".log div"))
        wait_for("the output follows", lambda: self.browser.count(".log div") > lines)
        self.browser.see("attempt", "main")
        self.go("#/jobs/99999")
        self.browser.see("99999")
        self.browser.see("All jobs")
        self.expect_clean(but=["404"])

    def test_a_waiting_job_says_why_and_what_if(self):
        job = self.scene.get("/jobs?state=pending")["jobs"][0]
        self.go(f"#/jobs/{job['id']}")
        self.browser.see(job["why"].split(";")[0])
        self.browser.wait("form.bar button")
        self.browser.click("form.bar button")
        wait_for("a prediction", lambda: "firnd\u2019s own words" in self.browser.text())
        self.expect_clean()

    def test_a_plan_predicts_and_submits(self):
        self.go("#/plan")
        self.browser.type("input[name=name]", "planned")
        self.assertIn('name: "planned"', self.browser.js("return document.querySelector('textarea').value"))
        self.browser.click("button[type=submit].main")
        wait_for("a prediction", lambda: "firnd\u2019s own words" in self.browser.text())
        self.assertFalse([j for j in self.scene.get("/jobs")["jobs"] if j["name"] == "planned"])
        self.browser.js("const t = document.querySelector('textarea'); t.value = t.value + 'no_such_key: 1\\n'")
        self.browser.click("section:last-child header .btn")
        self.browser.see("no_such_key")
        self.browser.js("const t = document.querySelector('textarea'); t.value = 'name: planned\\nrun: sleep 1\\n'")
        self.browser.click(".two .stack section:last-child header .btn")
        self.browser.see("Submitted:")
        self.assertTrue([j for j in self.scene.get("/jobs?limit=100000")["jobs"] if j["name"] == "planned"])
        self.expect_clean(but=["400"])

    def test_the_timeline_is_drawn_and_zooms(self):
        self.go("#/timeline")
        self.browser.wait("canvas")
        colours = """const c = document.querySelector('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, s = new Set();
                     for (let i = 0; i < d.length; i += 4 * 7) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size"""
        wait_for("blocks in several colours", lambda: self.browser.js(colours) > 8)
        before = self.browser.js("return location.hash")
        self.browser.press("w")
        wait_for("the window is in the address", lambda: self.browser.js("return location.hash") != before and "from=" in self.browser.js("return location.hash"))
        self.expect_clean()

    def test_keys_alone_find_and_open_a_job(self):
        self.go("#/")
        self.browser.press("g", "j")
        self.browser.wait(".rows .tr")
        self.browser.press("j")
        wait_for("the second row is selected", lambda: self.browser.js("return document.querySelector('.tr.sel')?.getAttribute('aria-rowindex')") == "3")
        self.browser.press("\ue007")
        self.browser.wait(".crumb")
        self.browser.press("?")
        self.browser.wait("dialog[open]")
        self.browser.press("\ue00c")
        self.expect_clean()

    def test_rows_stay_while_the_reader_is_at_the_table(self):
        self.go("#/jobs?state=waiting")
        self.browser.wait(".rows .tr")
        self.browser.js("document.querySelector('.vt').focus()")
        before = self.browser.js("return [...document.querySelectorAll('.rows .tr')].map(e => e.dataset.id).join()")
        job = self.scene.submit("latecomer", 1)
        self.browser.see("1 change: show")
        self.assertEqual(self.browser.js("return [...document.querySelectorAll('.rows .tr')].map(e => e.dataset.id).join()"), before)
        self.browser.click(".pillbtn")
        self.browser.see("latecomer")
        self.scene.call("POST", f"/jobs/{job}/cancel")


class Roles(BoardCase):
    gpus, nodes, ngpus, nwaiting = "1x2:v100@16", 1, 2, 2

    def test_a_viewer_sees_jobs_without_actions_or_output(self):
        token = self.scene.call("POST", "/tokens", '{"user": "victor", "role": "viewer", "name": "board"}')["token"]
        self.browser.open(self.scene.url + "/")
        self.browser.type(".signin input", token + "\ue007")
        self.browser.wait(".map .node")
        job = self.scene.get("/jobs?state=running")["jobs"][0]["id"]
        self.go(f"#/jobs/{job}")
        self.browser.see("shown to its user and to operators")
        self.browser.see("GPUs held")
        self.assertEqual(self.browser.count(".jh .btn.bad"), 0)
        self.expect_clean(but=["403"])


class Hostile(BoardCase):
    gpus, nodes, ngpus, nwaiting = "1x2:v100@16", 1, 2, 0

    @classmethod
    def make_past(cls, db, template):
        forger, now_s = Forger(db, template), time.time()
        user, name = HOSTILE, "n" * 64
        job = forger.ended(name, user, 1, now_s - 600, now_s - 500, now_s - 100, "n0[0]", "failed", workdir="/tmp/" + HOSTILE * 40)
        db.execute("UPDATE jobs SET why = ? WHERE id = ?", ((HOSTILE * 3)[:250], job))
        forger.past([(job, HOSTILE, user, now_s - 600, now_s - 500, now_s - 100, "n0[0]", "failed")])
        forger.event(now_s - 90, job, HOSTILE[:60], HOSTILE * 50)
        cls.job = job

    def test_no_text_of_others_becomes_markup(self):
        script = os.path.join(self.scene.folder, "evil.sh")
        with open(script, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\ncat <<'END'\n" + HOSTILE + "\n" + "x" * 10000000 + "\nEND\nprintf '\\033[31mred\\033[0m \\000nul \\377 bad\\n'\nsleep 600\n")
        os.chmod(script, 0o755)
        job = self.scene.submit("evil", 1, command=script)
        sign_in(self.browser, self.scene)
        for address in [*VIEWS, f"#/jobs/{self.job}", f"#/jobs/{job}"]:
            self.go(address)
            wait_for("the view is there", lambda: len(self.browser.text()) > 20)
            self.assertIsNone(self.browser.js("return window.pwned ?? null"))
            self.assertEqual(self.browser.count("main img, main script, main iframe"), 0)
        self.browser.see("<img src=x", ".log")
        self.browser.see("more characters", ".log")
        self.assertNotIn("\u202e", self.browser.js("return document.body.innerText"))
        self.go("#/jobs/%3Cscript%3E")
        self.browser.see("All jobs")
        self.go("#/jobs?q=" + "%3Cimg%20src%3Dx%20onerror%3D%22window.pwned%3D1%22%3E")
        self.browser.wait(".filter")
        self.assertIsNone(self.browser.js("return window.pwned ?? null"))
        self.expect_clean(but=["404", "400"])


class LostConnection(BoardCase):
    gpus, nodes, ngpus, nwaiting = "1x2:v100@16", 1, 2, 0

    def test_a_killed_firnd_is_said_and_nothing_is_missed(self):
        sign_in(self.browser, self.scene)
        self.scene.stop(signal.SIGKILL)
        self.browser.see("not connected", "#link")
        self.browser.see("Not connected to firnd", "#banner")
        self.assertIn("GPUs are at work", self.browser.text())  # it can still be read
        self.scene.start()
        job = self.scene.submit("after", 1)
        # A restart ends sessions: this one says so, and a token signs in again.
        self.browser.see("The session has ended", "#banner")
        sign_in(self.browser, self.scene)
        self.browser.see("after")
        self.scene.call("POST", f"/jobs/{job}/cancel")
        last = self.scene.get("/events?newest=1&limit=1")["events"][0]
        self.go("#/events")
        self.browser.see(last["text"])

    def test_with_a_token_the_page_comes_back_by_itself(self):
        self.browser.open("about:blank")
        self.browser.open(self.scene.url + "/")
        self.browser.js("sessionStorage.setItem('firn-token', arguments[0])", TOKEN)
        self.browser.open(self.scene.url + "/?again")
        self.browser.wait(".map .node")
        self.browser.wait("#link.live")
        self.scene.stop(signal.SIGKILL)
        self.browser.see("not connected", "#link")
        self.scene.start()
        job = self.scene.submit("comeback", 1)
        self.browser.wait("#link.live")
        self.browser.see("comeback")
        self.assertEqual(self.browser.js("return document.querySelector('#banner').hidden"), True)
        self.scene.call("POST", f"/jobs/{job}/cancel")


class FiveThousand(BoardCase):
    """Five thousand waiting jobs and 2000 GPUs."""

    gpus = "250x8:a100@80"

    @classmethod
    def make_past(cls, db, template):
        forger, now_s = Forger(db, template, first=1000), time.time()
        for i in range(5000):
            forger.waits(f"job-{i:04d}", f"user{i % 40}", 8 * (1 + i % 3), now_s - 5000 + i, types="h100")

    def test_the_list_is_quick_and_has_few_rows(self):
        began_s = time.monotonic()
        sign_in(self.browser, self.scene)
        self.go("#/jobs?state=waiting")
        self.browser.see("5\u2009000 of 5\u2009000")
        took_s = time.monotonic() - began_s
        rows = self.browser.count(".rows .tr")
        self.assertLess(rows, 100)
        self.assertLess(self.browser.js("return document.querySelectorAll('*').length"), 3000)
        self.browser.js("document.querySelector('.vt').scrollTop = 34 * 4990")
        self.browser.see("job-49")
        # The list is scrolled for 60 frames while jobs come in.
        before_s = self.browser.busy_s()
        self.browser.js("""const box = document.querySelector('.vt'); window.frames_left = 60;
            requestAnimationFrame(function next() {
              box.scrollTop = window.frames_left % 10 ? box.scrollTop - 120 : (window.frames_left * 2777) % (34 * 4900) + 2000;
              if (--window.frames_left > 0) requestAnimationFrame(next);
            })""")
        for i in range(10):
            self.scene.submit(f"late-{i}", 8, more="gpu: h100\n")
        shown = """const box = document.querySelector('.vt'), at = Math.floor(box.scrollTop / 34), rows = [...document.querySelectorAll('.rows .tr')];
            const places = rows.map(r => Number(r.getAttribute('aria-rowindex')));
            return places.every((p, i) => i === 0 || p === places[i - 1] + 1) && places[0] <= at + 2 && places[places.length - 1] >= at + 10"""
        wait_for("60 frames are drawn", lambda: self.browser.js("return window.frames_left") <= 0)
        frame_ms = 1000 * (self.browser.busy_s() - before_s) / 60
        wait_for("the rows in sight are there, in order and once", lambda: self.browser.js(shown))
        self.browser.see("5\u2009010 of 5\u2009010")
        self.assertLess(frame_ms, 60)  # of the processor: the time of day says nothing on a busy machine
        self.browser.js("document.querySelector('.vt').scrollTop = 0")
        self.browser.type(".filter", "user:user7 job-00")
        self.browser.see("3 of 5\u2009010")
        self.go("#/")
        self.browser.wait(".tightrow .cells")
        self.browser.see("5\u2009010 jobs cannot run on this cluster")
        self.browser.see("5\u2009008 more jobs")
        elements = self.browser.js("return document.querySelectorAll('*').length")
        print(f"5000 jobs: loaded and shown in {took_s:.1f} s, {rows} rows; a frame of scrolling, with jobs coming in, takes {frame_ms:.1f} ms of the processor; overview {elements} elements", file=sys.stderr)
        self.expect_clean()


if __name__ == "__main__":
    unittest.main(verbosity=2)
