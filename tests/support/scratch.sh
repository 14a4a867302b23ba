# shellcheck shell=bash
# Sourced by tests that get a folder to work in. They empty their folder, so they use one of their own inside it: other
# files there, even the source tree by mistake, stay.

# scratch_in FOLDER: makes FOLDER/TEST.scratch, empty, and prints its whole path.
scratch_in() {
    local scratch
    scratch=${1:?a folder to work in}/$(basename "$0" .sh).scratch
    rm -rf "$scratch" && mkdir -p "$scratch" && realpath "$scratch"
}
