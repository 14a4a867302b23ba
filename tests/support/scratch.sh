# shellcheck shell=bash
# Sourced by tests that are told a folder to work in. They empty what they work in, so they work in a folder of their own
# inside it: whatever else stands there, be it yours, be it the tree by a slip of the keyboard, stays.

# scratch_in FOLDER: makes FOLDER/TEST.scratch, empty, and prints its whole path.
scratch_in() {
    local scratch
    scratch=${1:?a folder to work in}/$(basename "$0" .sh).scratch
    rm -rf "$scratch" && mkdir -p "$scratch" && realpath "$scratch"
}
