#!/usr/bin/env bash
# Makes examples/data/text.txt, the text that the examples learn: the Jargon File as Debian's package
# jargon-text carries it (1.6 MB, in the public domain). Does nothing when it is there.
#
#   examples/make_text.sh [FILE]     FILE: another than examples/data/text.txt
set -euo pipefail
text=$(realpath -m "${1:-$(dirname "$0")/data/text.txt}")
cd "$(dirname "$0")"
[ -s "$text" ] && exit 0
mkdir -p "$(dirname "$text")"
new=$text.new.$$
scratch=$(mktemp -d)
trap 'rm -rf "$scratch" "$new"' EXIT

jargon=/usr/share/doc/jargon-text/jargon.txt.gz
if [ ! -s "$jargon" ] && command -v apt-get >/dev/null 2>&1; then
    # Small container images leave /usr/share/doc out when they install: unpack the package here.
    (cd "$scratch" && apt-get download jargon-text && dpkg-deb -x jargon-text_*.deb .) \
        >/dev/null 2>&1 || true
    jargon=$scratch$jargon
fi
if [ -s "$jargon" ]; then
    gzip -dc "$jargon" >"$new"
else
    echo "make_text: no Jargon File (package jargon-text); learning from licence texts and this" \
        "project's own sources instead: the loss will differ from what the documentation shows" >&2
    {
        find /usr/share/common-licenses -type f -print0 2>/dev/null | sort -z | xargs -0r cat
        find ../core ../runner ../planner -name '*.[ch]' -print0 | sort -z | xargs -0 cat
    } >"$new"
fi
if [ "$(wc -c <"$new")" -lt 100000 ]; then
    echo "make_text: found too little text; put any text of 100 KB or more at $text" >&2
    exit 3
fi
mv "$new" "$text"
