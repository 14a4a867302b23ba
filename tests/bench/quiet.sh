# shellcheck shell=bash
# Whether a machine was quiet while something was measured: sourced by ladder.sh and decode_peer.sh.

# look_around FILE: a line more in FILE, the share of the processors that somebody has in a second in which nothing of ours runs
look_around() {
    # shellcheck disable=SC2016 # awk's own
    local jiffies='/^cpu / {print $2 + $3 + $4 + $7 + $8 + $9, $2 + $3 + $4 + $5 + $6 + $7 + $8 + $9}' before
    before=$(awk "$jiffies" /proc/stat)
    sleep 1
    awk -v before="$before" "$jiffies" /proc/stat |
        awk -v before="$before" '{split(before, b, " "); print ($1 - b[1]) / ($2 - b[2])}' >>"$1"
}

# what_others_had FILE: `others had up to N % of the processors: quiet`, or that they had too much; status 1 where they had
what_others_had() {
    sort -g "$1" | tail -n 1 | awk '{
        printf "others had up to %.0f %% of the processors: %s\n", 100 * $1, $1 <= 0.1 ? "quiet" : "not quiet, these figures are none"
        exit $1 > 0.1
    }'
}
