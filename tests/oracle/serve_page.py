#!/usr/bin/env python3
"""The page at / of `runner serve` in headless Chromium, as a person uses it.

    apt-get install chromium && python3 -m venv VENV && VENV/bin/pip install playwright
    VENV/bin/python tests/oracle/serve_page.py BUILD [FOLDER]     CHROMIUM=/usr/bin/chromium

wants the model that tests/property/test_serve.sh BUILD left in BUILD/tests/serve. Leaves with 77 where
Playwright or Chromium is missing. Screenshots (wide and as a phone, light and dark) go to FOLDER; look
at them after a change of page.html. Nothing is asked of the network.
"""
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

try:
    from playwright.sync_api import expect, sync_playwright
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
if CHROMIUM is None:
    print("skipped: there is no Chromium")
    sys.exit(77)

BUILD = sys.argv[1] if len(sys.argv) > 1 else "build"
MODEL = os.path.join(BUILD, "tests", "serve", "model")
LONG = 32768  # tokens: a stream that lasts while a button is pressed


def emit(folder):
    """The model of test_serve.sh with one slot and room for long texts."""
    settings = ["name=small", f"directory={folder}/run", "cluster.accelerators_per_node=1",
                "model.hidden_size=64", "model.intermediate_size=96", "model.vocab_size=264",
                "model.num_hidden_layers=2", "model.num_attention_heads=4", "model.num_key_value_heads=1",
                "model.tie_word_embeddings=true", "sequence_length=64",
                f"data.path={os.path.abspath(BUILD)}/tests/serve/text", "data.format=bytes", "serve.max_batch=1",
                f"serve.max_tokens={LONG}", "serve.chunk=16"]
    subprocess.run([os.path.join(BUILD, "plan"), "emit", "configs/runs/quickstart.yaml", "-o", folder,
                    "--mesh_dim", "1,1,1,1", *(w for s in settings for w in ("--set", s))],
                   check=True, stdout=subprocess.DEVNULL)
    return os.path.join(folder, "small.plan.yaml")


class Server:
    def __init__(self, plan, *options):
        self.log = tempfile.NamedTemporaryFile("w+")
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "runner"), "serve", plan, "--checkpoint", MODEL, "--listen", "127.0.0.1:0",
             *options], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)

    def __enter__(self):
        found = None
        while found is None:
            assert self.process.poll() is None, "the server does not start"
            time.sleep(0.1)
            with open(self.log.name) as said:
                found = re.search(r"at http://(\S+?): ", said.read())
        self.address = found.group(1)
        return self

    def __exit__(self, *mistake):
        self.process.terminate()
        code = self.process.wait()
        assert mistake[0] is not None or code == 0, f"the server left with {code}"

    def running(self):
        c = http.client.HTTPConnection(self.address)
        c.request("GET", "/metrics")
        return float(re.search(r"^shardwright_sequences_running (\S+)$", c.getresponse().read().decode(),
                               re.M).group(1))


def occupy(address, count):
    """Streams of long texts that nobody reads."""
    made = []
    for _ in range(count):
        c = http.client.HTTPConnection(address)
        c.request("POST", "/v1/completions", json.dumps(
            {"prompt": "the", "max_tokens": LONG, "temperature": 0, "stream": True}),
            {"Content-Type": "application/json"})
        made.append(c)
        time.sleep(0.1)
    return made


def longer(page, count):
    until = time.time() + 20
    while len(page.locator("#text").text_content()) <= count:
        assert time.time() < until, "the text does not grow"
        time.sleep(0.02)


def ends(page):
    expect(page.locator("#go")).to_be_enabled(timeout=30000)


def streams_and_stops(page, server, pictures):
    page.goto(f"http://{server.address}/")
    expect(page.locator("#model")).to_have_text("small")
    # at the end of the prompt, its text in grey and what was made behind it
    page.fill("#prompt", "the quick")
    page.fill("#max_tokens", "200")
    page.click("#go")
    ends(page)
    text = page.locator("#text").inner_text()
    assert text.startswith("the quick") and len(text) > 100, text
    assert page.locator("#text b").inner_text() == "the quick"
    expect(page.locator("#said")).to_have_text("200 tokens")
    pictures("done")
    # what the API says of the same
    c = http.client.HTTPConnection(server.address)
    c.request("POST", "/v1/completions", json.dumps({"prompt": "the quick", "max_tokens": 200, "temperature": 0}),
              {"Content-Type": "application/json"})
    wanted = json.loads(c.getresponse().read())["choices"][0]["text"]
    assert page.locator("#text").text_content() == "the quick" + wanted, (text, wanted)
    # a long text arrives while it is made, and Stop frees its slot
    page.fill("#max_tokens", str(LONG - 20))
    page.press("#prompt", "Control+Enter")
    expect(page.locator("#stop")).to_be_enabled()
    expect(page.locator("#go")).to_be_disabled()
    longer(page, 60)
    first = len(page.locator("#text").text_content())
    longer(page, first + 60)
    assert server.running() == 1
    pictures("streaming")
    page.click("#stop")
    ends(page)
    expect(page.locator("#stop")).to_be_disabled()
    expect(page.locator("#said")).to_contain_text("stopped")
    kept = page.locator("#text").text_content()
    until = time.time() + 10
    while server.running() > 0:
        assert time.time() < until, "the slot is not free"
        time.sleep(0.1)
    assert page.locator("#text").text_content() == kept and len(kept) < LONG, len(kept)


def says_what_is_wrong(page, server, pictures):
    page.goto(f"http://{server.address}/")
    expect(page.locator("#model")).to_have_text("small")
    said = page.locator("#said")
    page.fill("#prompt", "")
    page.click("#go")
    expect(said).to_contain_text("prompt is empty")
    pictures("empty")
    # what the browser checks itself: nothing is asked
    page.fill("#prompt", "a")
    page.fill("#max_tokens", "")
    asked = []
    page.on("request", lambda r: asked.append(r.url))
    page.click("#go")
    assert not asked, asked
    page.fill("#max_tokens", "20")
    page.fill("#temperature", "0.7")
    page.click("#go")
    expect(said).to_have_text("20 tokens")
    # markup in a text is text
    page.fill("#prompt", "<img src=x onerror=document.title='hit'><script>1</script>\n\u2028 \u00e9 \U0001f600")
    page.click("#go")
    ends(page)
    assert page.locator("#text img, #text script").count() == 0 and page.title() != "hit"
    # one runs, one waits: this one is too many
    busy = occupy(server.address, 2)
    page.click("#go")
    expect(said).to_contain_text("429: 1 sequence waits already", timeout=10000)
    pictures("busy")
    for c in busy:
        c.close()


def asks_for_the_token(page, server, pictures):
    page.goto(f"http://{server.address}/")
    said = page.locator("#said")
    expect(said).to_have_text("401: the server wants its API key")  # at once, before anything is typed
    pictures("token")
    page.fill("#token", "wrong")
    page.click("#go")
    expect(said).to_have_text("401: the server wants another API key")
    expect(page.locator("#token")).to_be_focused()
    page.fill("#token", "se-cret")
    page.fill("#max_tokens", "20")
    page.press("#token", "Enter")
    expect(said).to_have_text("20 tokens")
    expect(page.locator("#model")).to_have_text("small")
    assert "se-cret" not in page.content() and "se-cret" not in page.url


def hears_of_the_end(page, server):
    page.goto(f"http://{server.address}/")
    page.fill("#prompt", "the")
    page.fill("#max_tokens", str(LONG - 20))
    page.click("#go")
    longer(page, 60)
    server.process.kill()
    ends(page)
    expect(page.locator("#said")).to_contain_text("ended before the text was whole")
    page.click("#go")
    expect(page.locator("#said")).to_contain_text("cannot be reached")


def main():
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as play:
        plan = emit(folder)
        keep = sys.argv[2] if len(sys.argv) > 2 else folder
        os.makedirs(keep, exist_ok=True)
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for name, look in {"wide": {"viewport": {"width": 1100, "height": 700}},
                           "dark": {"viewport": {"width": 1100, "height": 700}, "color_scheme": "dark"},
                           "phone": {"viewport": {"width": 360, "height": 740}, "is_mobile": True,
                                     "device_scale_factor": 2}}.items():
            context = browser.new_context(**look)
            page = context.new_page()
            mistakes = []
            page.on("pageerror", lambda e: mistakes.append(str(e)))

            def picture(what):
                page.screenshot(path=os.path.join(keep, f"{name}-{what}.png"))
                wider = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                assert wider <= 0, f"{name}, {what}: {wider} pixels are outside"

            with Server(plan, "--queue", "1") as server:
                streams_and_stops(page, server, picture)
                says_what_is_wrong(page, server, picture)
            token = os.path.join(folder, "token")
            with open(token, "w") as file:
                file.write("se-cret\n")
            with Server(plan, "--token-file", token) as server:
                asks_for_the_token(page, server, picture)
            assert not mistakes, mistakes
            context.close()
            print(f"{name}: streamed, stopped, refused, a token, markup")
        page = browser.new_page()
        server = Server(plan).__enter__()
        hears_of_the_end(page, server)
        server.process.wait()
        version = browser.version
        browser.close()
    print(f"the page at / in Chromium {version}")


main()
