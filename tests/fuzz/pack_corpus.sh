#!/usr/bin/env bash
# Writes tests/fuzz/corpus/NAME.tar.gz anew for each fuzzer: of the inputs that it held, and of those
# in MORE/NAME if there are any, the fewest that reach everything that all of them reach together.
# Inputs that are not minimised away keep their bytes. The same inputs give the same archive.
#
#   tests/fuzz/pack_corpus.sh BUILD [MORE]     BUILD: a build with -DSW_FUZZ=ON and clang, as
#                                              tests/run.sh --all makes it in build-checked
set -euo pipefail
build=$(realpath "${1:?the build of the fuzzers}")
more=${2:+$(realpath "$2")}
cd "$(dirname "$0")/corpus"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

packed=0
for source in ../fuzz_*.c; do
    name=$(basename "$source" .c)
    all=$scratch/$name/all least=$scratch/$name/least
    mkdir -p "$all" "$least"
    [ ! -e "$name.tar.gz" ] || tar -xzf "$name.tar.gz" -C "$all"
    if [ -n "$more" ] && [ -d "$more/$name" ]; then
        find "$more/$name" -type f -exec cp -- {} "$all/" \;
    fi
    "$build/tests/$name" -merge=1 -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$scratch/" \
        "$least" "$all" >"$scratch/$name/log" 2>&1 || {
        tail -n 40 "$scratch/$name/log" >&2
        exit 1
    }
    (cd "$least" && find . -type f -printf '%f\0' | LC_ALL=C sort -z |
        tar --null --files-from=- --format=ustar --mtime=@0 --mode=0644 --owner=0 --group=0 \
            --numeric-owner -cf -) | gzip -9n >"$name.tar.gz.new"
    mv "$name.tar.gz.new" "$name.tar.gz"
    echo "$name: $(find "$all" -type f | wc -l) inputs, $(find "$least" -type f | wc -l) kept," \
        "$(stat -c %s "$name.tar.gz") bytes"
    packed=$((packed + 1))
done
[ "$packed" -gt 0 ]
