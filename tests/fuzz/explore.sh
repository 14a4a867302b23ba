#!/usr/bin/env bash
# One fuzzer, from everything that a user would write and what is kept of earlier findings.
#
#   tests/fuzz/explore.sh FUZZER SECONDS SEED ARTIFACTS
#
# FUZZER: a program of a build with -DSW_FUZZ=ON and clang. The same seed takes the same way, as far
# as the seconds reach. What it finds is left in the folder ARTIFACTS; then it leaves with 1.
set -uo pipefail
fuzzer=$(realpath "${1:?the fuzzer}") seconds=${2:?seconds} seed=${3:?seed}
artifacts=$(realpath "${4:?a folder for what is found}")
cd "$(dirname "$0")/../.." || exit 2
name=$(basename "$fuzzer")
corpus=$(mktemp -d "$artifacts/corpus.XXXXXX") || exit 2
trap 'rm -rf "$corpus"' EXIT
find configs -name '*.yaml' -exec cp -- {} "$corpus/" \;
tar -xzf "tests/fuzz/corpus/$name.tar.gz" -C "$corpus" || exit 2
dictionary=()
[ -f "tests/fuzz/$name.dict" ] && dictionary=(-dict="tests/fuzz/$name.dict")
# places in the code are part of what it learns: fixed, so that the way is
fixed=()
setarch "$(uname -m)" -R true 2>/dev/null && fixed=(setarch "$(uname -m)" -R)
echo "$name, seed $seed, $seconds s"
${fixed[@]+"${fixed[@]}"} "$fuzzer" -seed="$seed" -max_total_time="$seconds" -timeout=10 \
    -rss_limit_mb=2048 -artifact_prefix="$artifacts/" ${dictionary[@]+"${dictionary[@]}"} "$corpus" ||
    exit 1 # not libFuzzer's 77, which would read as a skip
