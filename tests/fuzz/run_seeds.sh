#!/usr/bin/env bash
# Runs a fuzzer that was built without libFuzzer on every input of its corpus, and on more files.
#
#   tests/fuzz/run_seeds.sh FUZZER ARCHIVE FOLDER [FILE...]     FOLDER: made anew for the corpus
set -euo pipefail
[ $# -ge 3 ] || {
    echo "usage: $0 FUZZER ARCHIVE FOLDER [FILE...]" >&2
    exit 2
}
fuzzer=$1 archive=$2 folder=$3
shift 3
rm -rf "$folder"
mkdir -p "$folder"
tar -xzf "$archive" -C "$folder"
[ -n "$(ls "$folder")" ] || {
    echo "$archive holds no input" >&2
    exit 1
}
exec "$fuzzer" "$folder" "$@"
