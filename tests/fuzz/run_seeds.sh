#!/usr/bin/env bash
# Runs a fuzzer on every input of its corpus, and on more files and folders.
#
#   tests/fuzz/run_seeds.sh FUZZER ARCHIVE FOLDER OPTION [FILE...]     FOLDER: for the inputs
#
# OPTION: -runs=0 of a libFuzzer program; '' of one that was built without.
set -euo pipefail
[ $# -ge 4 ] || {
    echo "usage: $0 FUZZER ARCHIVE FOLDER OPTION [FILE...]" >&2
    exit 2
}
# shellcheck source=tests/support/scratch.sh
. "$(dirname "$0")/../support/scratch.sh"
fuzzer=$1 archive=$2 folder=$(scratch_in "$3") option=$4
shift 4
mkdir "$folder/corpus" "$folder/seeds"
tar -xzf "$archive" -C "$folder/corpus"
[ -n "$(ls "$folder/corpus")" ] || {
    echo "$archive holds no input" >&2
    exit 1
}
count=0
for place; do
    while IFS= read -r file; do
        count=$((count + 1)) # files of two folders may have one name
        cp -- "$file" "$folder/seeds/$count-${file##*/}"
    done < <(find "$place" -type f)
done
exec "$fuzzer" ${option:+"$option"} "$folder/corpus" "$folder/seeds"
