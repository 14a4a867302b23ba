#!/usr/bin/env bash
# `plan explain --html`: one self-contained, well-formed, escaped page; the same bytes every time;
# a page that cannot be written is one line and exit code 3.
set -eu
plan=$1
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
work=$(scratch_in "$2")
fail() { echo "FAILED: $*" >&2; exit 1; }
run=configs/runs/llama-8b-64.yaml

"$plan" explain $run --html "$work/a.html" > "$work/out"
[ -s "$work/out" ] && fail "the page should be all there is"
"$plan" explain $run --html "$work/b.html"
cmp -s "$work/a.html" "$work/b.html" || fail "two runs, two pages"
"$plan" explain $run --json > "$work/a.json"
"$plan" explain $run --json > "$work/b.json"
cmp -s "$work/a.json" "$work/b.json" || fail "two runs, two JSON"
[ -z "$(find "$work" -mindepth 1 -maxdepth 1 -name '.*')" ] || fail "a temporary file is left"

# nothing is loaded, nothing runs, every picture has a title and a text alternative
grep -Eiq '<script|<link|<img|@import|https?://|url\(|<iframe' "$work/a.html" && fail "not self-contained"
[ "$(grep -c '<svg ' "$work/a.html")" = 4 ] || fail "four pictures"
[ "$(grep -c 'role="img" aria-labelledby' "$work/a.html")" = 4 ] || fail "pictures have names"
grep -q 'prefers-color-scheme:dark' "$work/a.html" || fail "no dark mode"
grep -q '<html lang="en">' "$work/a.html" || fail "no language"

if command -v python3 > /dev/null; then
    python3 - "$work/a.html" "$work/a.json" << 'PY'
import json, sys
import xml.dom.minidom as dom
page = open(sys.argv[1], encoding='utf-8').read()
# all but the doctype and <meta> is XML
body = page[page.index('<body>'):page.index('</html>')]
tree = dom.parseString(body.encode())
ids = [e.getAttribute('id') for e in tree.getElementsByTagName('*') if e.getAttribute('id')]
assert len(ids) == len(set(ids)), 'an id twice'
for svg in tree.getElementsByTagName('svg'):
    width, height = map(float, svg.getAttribute('viewBox').split()[2:])
    for text in svg.getElementsByTagName('text'):
        x, y = float(text.getAttribute('x')), float(text.getAttribute('y'))
        long = 6.2 * len(text.firstChild.data)
        left = {'start': x, 'middle': x - long / 2, 'end': x - long}[text.getAttribute('text-anchor')]
        assert left > -12 and left + long < width + 12 and 0 < y <= height, text.toxml()
data = json.load(open(sys.argv[2]))
profile = data['memory_profile']
assert profile['peak'] <= profile['arena'] == data['mesh']['memory']['arena']
assert max(o['total'] for o in profile['over_step']) == profile['peak']
assert profile['peak'] + profile['between_buffers'] == profile['arena']
PY
fi

# checkpoints, and how long the run takes
grep -q '^<tr><td class="m">pause</td><td>[0-9.]* m\?s: exchange [0-9.]* [mu]\?s, copy ' "$work/a.html" || fail "no checkpoints"
grep -q '<p>The run: 100,000 steps take [0-9.]* [dh]a*y*s*, [0-9,]* accelerator-hours; this is more than the job&#39;s time limit, 24:00:00' \
    "$work/a.html" || fail "no time limit"
"$plan" explain configs/runs/quickstart.yaml --html "$work/c.html"
grep -q '^<tr><td>snapshot, while a checkpoint is written</td><td></td><td class="n">5.2 MB</td></tr>$' "$work/c.html" ||
    fail "no snapshot"

# markup in a text of the user stays text
sed 's/^\(source:\).*/\1 "h<i>\&\x27x"/' configs/profiles/llm-foundry-2023-h100-sxm-80gb.yaml > "$work/profile.yaml"
grep -q '<i>' "$work/profile.yaml" || fail "no source to change"
"$plan" explain $run --set "profile=$work/profile.yaml" --html "$work/d.html"
grep -q 'h&lt;i&gt;&amp;&#39;x' "$work/d.html" || fail "not escaped"
grep -q '<i>' "$work/d.html" && fail "markup from a text"

# rejected meshes with their numbers
"$plan" explain $run --rejected | grep -q '^rejected: ' || fail "--rejected"

# what cannot be written
status=0
"$plan" explain $run --html "$work/none/a.html" > "$work/out" 2> "$work/err" || status=$?
[ $status = 2 ] || fail "exit $status, not 2"
[ "$(wc -l < "$work/err")" = 1 ] || fail "one line"
grep -q "^plan: error: cannot write '$work/none/a.html': No such file or directory; name another file with --html$" "$work/err" ||
    fail "$(cat "$work/err")"
status=0
"$plan" explain $run --html "$work" > "$work/out" 2> "$work/err" || status=$?
[ $status = 2 ] || fail "a folder: exit $status, not 2"
echo passed
