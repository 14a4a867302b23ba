#!/usr/bin/env bash
# Writes the pictures of docs/pictures, which are those of `plan explain --html` and `plan search --html`, each with the
# page's colours.
# Run it when a test says that a picture is out of date, and commit the result.
#
#   docs/make_pictures.sh [BUILD [OUT]]     default: build, docs/pictures
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(realpath "${1:-$here/../build}")
out=${2:-$here/pictures}
mkdir -p "$out"
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
"$build/plan" explain "$here/../configs/runs/llama-8b-64.yaml" --html "$pages/explain" >/dev/null
"$build/plan" search "$here/../configs/runs/llama-70b-512.yaml" --nodes 6..64:2 --html "$pages/search" >/dev/null

# picture NAME PAGE ID: the drawing whose title has that id, white behind it
picture() {
    awk -v id="$3" '
        /<style>/ { css = 1 }
        css { style = style $0 "\n" }
        /<\/style>/ { css = 0 }
        /<svg / { drawing = 1; text = "" }
        drawing { text = text $0 "\n" }
        /<\/svg>/ && drawing {
            drawing = 0
            if (index(text, "id=\"" id "\"")) {
                sub(/<svg /, "<svg xmlns=\"http://www.w3.org/2000/svg\" ", text)
                at = index(text, ">")
                # viewers of pictures have one set of colours, and some know no variables
                sub(/@media \(prefers-color-scheme:dark\)\{:root\{[^}]*\}\}/, "", style)
                match(style, /:root\{[^}]*\}/)
                count = split(substr(style, RSTART + 6, RLENGTH - 7), colour, ";")
                sub(/:root\{[^}]*\}/, "", style)
                for (i = 1; i <= count; i++)
                    if (split(colour[i], pair, ":") == 2)
                        gsub("var\\(" pair[1] "\\)", pair[2], style)
                printf "%s\n%s<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>%s", substr(text, 1, at), style, substr(text, at + 1)
            }
        }' "$pages/$2" >"$out/$1.svg"
    [ -s "$out/$1.svg" ] || { echo "make_pictures: no picture '$3' in the page" >&2 && exit 1; }
}
picture meshes explain map-t
picture memory explain memory-t
picture frontier search frontier-t
