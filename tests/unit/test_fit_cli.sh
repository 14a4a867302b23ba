#!/bin/bash
# `plan fit` from the command line, and the catalogue: test_fit_cli.sh PLAN
set -eu
plan=$1
published=tests/bench/published
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

fail()
{
    echo "$*" >&2
    exit 1
}

# what it prints is a profile; of three models here, for each left out is another search: unit_fit has all of them
awk -F, '/^#/ || !header++ || (/,a100_40gb,/ && ($2 == "125m" || $2 == "1b" || $2 == "13b")) || (/,h100_80gb,/ && $2 == "1b")' \
    $published/data/published_fsdp.csv >"$out/some.csv"
"$plan" fit "$out/some.csv" $published/clusters/foundry-a100-40gb.yaml >"$out/fit.yaml" 2>"$out/errors"
grep -q '^# accelerator a100-sxm-40gb: 15 runs of 3 models' "$out/fit.yaml" || fail "no heading"
grep -q 'leave one model out:  *mean error' "$out/fit.yaml" || fail "no error of left out models"
grep -q "some.csv:[0-9]*:[0-9]*: note: not used: no cluster was given with accelerator 'h100_80gb'" "$out/errors" || fail "silent about H100 rows"
"$plan" check "$out/fit.yaml" | grep -q 'ok, a profile' || fail "it is no YAML of ours"

# so are the links
"$plan" fit $published/data/published_collectives.csv configs/clusters/b200-efa-4x8.yaml >"$out/links"
grep -q 'efa: 20 collectives, mean error' "$out/links" || fail "no links"
{
    sed '/^links:/,$d' configs/clusters/b200-efa-4x8.yaml |
        sed "s|\.\./accelerators|$PWD/configs/accelerators|"
    cat "$out/links"
} >"$out/c.yaml"
"$plan" check "$out/c.yaml" | grep -q 'ok, a cluster' || fail "the links are no YAML of ours"

# what curves' files say of their errors is what it prints
for cluster in h100-8x8:nvlink-h100 dgx-a100-16x8:nvlink-a100 dgx-b200-8x8:nvlink-b200 gb200-nvl72-36x4:nvlink-gb200 l40s-pcie-1x8:pcie-l40s; do
    "$plan" fit $published/data/published_nccl.csv "configs/clusters/${cluster%:*}.yaml" | grep -o '[a-z_]*error: [-.0-9]*' |
        diff - <(grep -E '^[a-z_]*error: ' "configs/curves/nccl-${cluster#*:}.yaml") || fail "$cluster: other errors"
done

# so are the grids of matrix products, which stand in the chips' files as they are printed
for cluster in dgx-a100-16x8:a100-sxm-80gb h100-8x8:h100-sxm-80gb h200-16x8:h200-sxm-141gb dgx-b200-8x8:b200-sxm-180gb \
    l40s-pcie-1x8:l40s-48gb; do
    "$plan" fit $published/data/published_gemm.csv "configs/clusters/${cluster%:*}.yaml" >"$out/products"
    grep -q 'measured sizes that are none of these points: mean error' "$out/products" || fail "no error of products"
    diff <(sed -n '/^products_error:/,$p' "$out/products") \
        <(sed -n '/^products_error:/,$p' "configs/accelerators/${cluster#*:}.yaml") || fail "$cluster: other products"
done
printf 'm,n,k,latency_us\n1,2,3,4\n1,2,4,5\n' >"$out/few.csv"
"$plan" fit "$out/few.csv" configs/clusters/h100-8x8.yaml >/dev/null 2>"$out/errors" && fail "a grid of two points"
grep -q 'the products of h100-sxm-80gb are not a full grid: each m needs every n' "$out/errors" || fail "$(cat "$out/errors")"
printf 'm,n,k,latency_us\n1,2,3,0\n' >"$out/few.csv"
"$plan" fit "$out/few.csv" configs/clusters/h100-8x8.yaml >/dev/null 2>"$out/errors" && fail "no time at all"
grep -q 'few.csv:2:1: error: a product needs m, n and k of at least 1' "$out/errors" || fail "$(cat "$out/errors")"

# so are those of attention
for cluster in dgx-a100-16x8:a100-sxm-80gb h100-8x8:h100-sxm-80gb h200-16x8:h200-sxm-141gb dgx-b200-8x8:b200-sxm-180gb; do
    "$plan" fit $published/data/published_attention.csv "configs/clusters/${cluster%:*}.yaml" >"$out/attention"
    [ "$(grep -c 'measured sizes that are none of these points: mean error' "$out/attention")" -eq 2 ] || fail "no error of attention"
    diff <(awk '/^[^ ]/ { on = /^attention:/ } on' "$out/attention") \
        <(awk '/^[^ ]/ { on = /^attention:/ || on && /^\]/ } on' "configs/accelerators/${cluster#*:}.yaml") ||
        fail "$cluster: other attention"
done
printf 'phase,batch,tokens,cached,heads,kv_heads,head_dim,latency_us\nprefill,1,64,0,8,8,128,5\n' >"$out/few.csv"
"$plan" fit "$out/few.csv" configs/clusters/h100-8x8.yaml >/dev/null 2>"$out/errors" && fail "a grid of one point"
grep -q 'the attention of h100-sxm-80gb is not a full grid in prefill: the fewest heads need every length' "$out/errors" ||
    fail "$(cat "$out/errors")"
printf 'phase,tokens,heads,kv_heads,head_dim,latency_us\nprefill,64,8,8,128,5\nprefill,128,8,8,128,6\n' >"$out/few.csv"
"$plan" fit "$out/few.csv" configs/clusters/h100-8x8.yaml >/dev/null 2>"$out/errors" && fail "columns that lack"
grep -q 'few.csv:1:1: error: a table of attention lacks columns: batch, cached$' "$out/errors" || fail "$(cat "$out/errors")"
printf 'phase,batch,tokens,cached,heads,kv_heads,head_dim,latency_us\ndecode,1,2,0,8,8,128,5\n' >"$out/few.csv"
"$plan" fit "$out/few.csv" configs/clusters/h100-8x8.yaml >/dev/null 2>"$out/errors" && fail "decoding two tokens"
grep -q 'few.csv:2:1: error: attention needs phase prefill with nothing cached' "$out/errors" || fail "$(cat "$out/errors")"

# what nccl-tests prints for sixteen GPUs of two nodes, at 337 of 400 GB/s: the share is that of the ports
nccl() { # REDOP RATIO NAME [BYTES PER SECOND]
    echo "# nccl-tests $3"
    for rank in $(seq 0 15); do echo "#  Rank  $rank Group  0 Pid 1 on host$((rank / 8)) device  $((rank % 8)) GPU"; done
    awk -v redop="$1" -v ratio="$2" -v rate="${4:-337e9}" 'BEGIN {
        for (size = 65536; size < 1.5e10; size *= 4) {
            seconds = 40e-6 + size / (rate / ratio)
            printf "%.0f %.0f float %s -1 %.2f %.4f %.4f 0\n", size, size / 4, redop, seconds * 1e6,
                size / seconds / 1e9, size / seconds * ratio / 1e9 } }'
}
nccl none 0.9375 all_gather_perf >"$out/a.txt"
"$plan" fit "$out/a.txt" configs/clusters/h100-8x8.yaml >"$out/links"
grep -q "put these 'links' in place of those in its file" "$out/links" || fail "does not say where to put it"
share=$(grep -o '[0-9.]*\]\]}' "$out/links" | tail -n 1 | tr -d ']}')
awk -v s="$share" 'BEGIN { exit !(s > 0.83 && s < 0.86) }' || fail "a share of $share, not 337 of 400"

# mistakes
expect()
{
    local code=$1 text=$2
    shift 2
    local status=0
    "$plan" fit "$@" >/dev/null 2>"$out/errors" || status=$?
    [ $status -eq "$code" ] || fail "exit code $status, not $code: $*"
    grep -qF -- "$text" "$out/errors" || fail "not '$text' but '$(cat "$out/errors")'"
}
expect 2 "name the measurements, as in 'plan fit runs.csv clusters/*.yaml'"
expect 2 "missing.csv: error: cannot read it: No such file or directory" missing.csv
expect 1 "none of the 101 runs could be priced; the reasons are above" \
    $published/data/published_fsdp.csv
echo '{}' >"$out/metrics.jsonl"
expect 2 "give the run's plan file before its metrics" "$out/metrics.jsonl"
expect 2 "takes clusters, models, runs and plans beside measurements" configs/accelerators/cpu-core.yaml
# a run is its cluster and its model
printf 'software,gpu,model,n_gpus,seq_len,micro_batch,tok_s_gpu\nmine,h100_80gb,llama-8b,64,8192,1,9000\n' >"$out/of_run.csv"
"$plan" fit "$out/of_run.csv" configs/runs/llama-8b-64.yaml >"$out/of_run.yaml" 2>&1 || fail "of a run: $(cat "$out/of_run.yaml")"
"$plan" fit "$out/of_run.csv" configs/clusters/h100-8x8.yaml configs/models/llama-8b.yaml | cmp - "$out/of_run.yaml" ||
    fail "a run is not its cluster and its model"

# of two columns of one name nobody knows which is meant, in any of the tables
for names in gpu,model,n_gpus,seq_len,micro_batch,tok_s_gpu,gpu m,n,k,latency_us,m collective,payload_bytes,gpus,busbw_GBps,gpus \
    op,message_bytes,accelerators,latency_us,op phase,batch,tokens,cached,heads,kv_heads,head_dim,latency_us,phase; do
    printf '%s\n1,2,3,4,5,6,7,8,9\n' "$names" >"$out/twice.csv"
    expect 2 "are both named '${names##*,}'; rename or remove one" "$out/twice.csv" configs/clusters/h100-8x8.yaml
    [ "$(wc -l <"$out/errors")" -eq 1 ] || fail "more than a line: $(cat "$out/errors")"
    cp "$out/twice.csv" "$out/twice.txt"
    case $names in c* | o*) expect 2 "are both named '${names##*,}'" "$out/twice.txt" configs/clusters/h100-8x8.yaml ;; esac
done
printf 'op,message_bytes,op,accelerators,latency_us\n' >"$out/twice.csv"
expect 2 "twice.csv:1:18: error: the columns 1 and 3 are both named 'op'; rename or remove one" "$out/twice.csv"

# Whatever the order of its rows a table tells the same, and in the same time.
awk 'BEGIN { print "collective,payload_bytes,gpus,busbw_GBps"
    split("all_gather reduce_scatter all_reduce alltoall", kind, " ")
    for (k = 1; k <= 4; k++) for (n = 2; n <= 8; n *= 2) for (i = 10; i < 34; i++)
        printf "%s,%.0f,%d,%.4f\n", kind[k], 2 ^ i, n, 300 * 2 ^ i / (2 ^ i + 1e6 * (k + n)) }' >"$out/ordered.csv"
awk 'NR == 1 { print; next } { row[NR % 24, ++count[NR % 24]] = $0 }
    END { for (i = 0; i < 24; i++) for (k = 1; k <= count[i]; k++) print row[i, k] }' "$out/ordered.csv" >"$out/mixed.csv"
for order in ordered mixed; do
    (ulimit -t 20 && "$plan" fit "$out/$order.csv" configs/clusters/h100-8x8.yaml) >"$out/$order.yaml" 2>"$out/errors" ||
        fail "$order: $(cat "$out/errors")"
done
cmp "$out/ordered.yaml" "$out/mixed.yaml" || fail "another order, another answer"
# Few collectives of one link, whatever there is of others, are each left out by itself.
for more in '' 'all_gather|reduce_scatter|all_reduce'; do
    { printf 'collective,payload_bytes,gpus,busbw_GBps\nall_reduce,1048576,8,20\nall_reduce,16777216,8,120\nall_reduce,268435456,8,290\n'
        [ -z "$more" ] || sed -nE "s/^($more),([0-9]*),2,.*/\1,\2,64,0.4/p" "$out/ordered.csv"; } >"$out/few.csv"
    "$plan" fit "$out/few.csv" configs/clusters/h100-8x8.yaml | grep -A 1 '# nvlink: 3 collectives' >"$out/few.${more:+more}"
done
cmp "$out/few." "$out/few.more" || fail "one link's errors change with another's rows"

# The same sizes measured twice are left out together.
awk 'BEGIN { print "op,message_bytes,accelerators,latency_us"; for (i = 20; i < 31; i++) printf "all_reduce,%.0f,8,%.2f\n", 2 ^ i, 15 + 2 ^ i / (1e5 + 2e4 * (i % 3)) }' >"$out/once.csv"
{ cat "$out/once.csv"; tail -n +2 "$out/once.csv"; } >"$out/again.csv"
for times in once again; do "$plan" fit "$out/$times.csv" configs/clusters/h100-8x8.yaml | grep 'that are left out' >"$out/$times.left"; done
cmp "$out/once.left" "$out/again.left" || fail "$(cat "$out/once.left" "$out/again.left")"
# Units that are off by a thousand are told where no share explains them.
printf 'gpu,model,n_gpus,seq_len,micro_batch,tok_s_gpu\nh100_80gb,llama-8b,64,8192,1,9\n' >"$out/slow.csv"
"$plan" fit "$out/slow.csv" configs/clusters/h100-8x8.yaml configs/models/llama-8b.yaml | grep -q '^# Every share is at its least' || fail "silent about 9 tokens a second"

# What no cluster has room for is told, and so are columns between other marks.
printf 'op,message_bytes,accelerators,latency_us\nall_reduce,1048576,8,45\nall_reduce,1048576,128,90\n' >"$out/large.csv"
"$plan" fit "$out/large.csv" configs/clusters/h100-8x8.yaml 2>&1 >/dev/null |
    grep -qx "$out/large.csv:3:24: note: not used: 1 collectives over more ranks than a given cluster has" || fail "silent about 128 ranks"
tr , ';' <"$out/large.csv" >"$out/marks.csv"
expect 2 "marks.csv:1:1: error: not a CSV file: put commas between its columns" "$out/marks.csv" configs/clusters/h100-8x8.yaml

# What was fitted to one says nothing of others.
printf 'op,message_bytes,accelerators,latency_us\nall_reduce,1048576,8,45\n' >"$out/one.csv"
"$plan" fit "$out/one.csv" configs/clusters/h100-8x8.yaml >"$out/fit.yaml"
grep -qx '  # those of one size tell no error of others' "$out/fit.yaml" || fail "$(cat "$out/fit.yaml")"
[ "$(grep -c 'left out' "$out/fit.yaml")" -eq 0 ] || fail "$(cat "$out/fit.yaml")"

# Tables of any length take seconds, or are refused in a line.
awk 'BEGIN { print "collective,payload_bytes,gpus,busbw_GBps"
    for (i = 0; i < 200000; i++) printf "all_reduce,%.0f,8,%.3f\n", 2 ^ (20 + i % 14), 100 + i % 14 * 10 + i % 7 }' >"$out/long.csv"
memory=500000 # kB; the address sanitizer's shadow takes terabytes
(ulimit -v "$memory" && "$plan" --version) >/dev/null 2>&1 || memory=unlimited
(ulimit -t 20 -v "$memory" && "$plan" fit "$out/long.csv" configs/clusters/h100-8x8.yaml) >"$out/fit.yaml" 2>"$out/errors" ||
    fail "200,000 rows: $(cat "$out/errors")"
grep -qx 'plan: note: of 200000 collectives many repeat a size: the medians of 14 count' "$out/errors" || fail "$(cat "$out/errors")"
awk 'BEGIN { print "collective,payload_bytes,gpus,busbw_GBps"
    for (i = 0; i < 2001; i++) printf "all_reduce,%d,8,100\n", 2 ^ 22 + i }' >"$out/long.csv"
expect 2 "long.csv:2002:22: error: 2001 collectives of sizes of their own, more than 2000; give fewer sizes" \
    "$out/long.csv" configs/clusters/h100-8x8.yaml
awk 'BEGIN { print "gpu,model,n_gpus,seq_len,micro_batch,tok_s_gpu,skip"
    for (i = 0; i < 200000; i++) print "h100,llama-8b,8,4096,1,9000,no" }' >"$out/long.csv"
expect 2 "long.csv:1002:1: error: more than 1000 runs; give fewer, such as medians of those that are alike" \
    "$out/long.csv" configs/clusters/h100-8x8.yaml
[ "$(wc -l <"$out/errors")" -eq 1 ] || fail "more than a line: $(head -n 3 "$out/errors")"
awk 'BEGIN { print "m,n,k,latency_us"
    for (i = 0; i < 200000; i++) printf "%d,1024,1024,1000\n", i + 1 }' >"$out/long.csv"
expect 2 "long.csv:18:14: error: more sizes of products than the 16 rows, 8 columns and 8 depths that a grid has; leave some out" \
    "$out/long.csv" configs/clusters/h100-8x8.yaml
awk 'BEGIN { print "collective,payload_bytes,gpus,busbw_GBps"
    for (i = 0; i < 200000; i++) print "all_reduce,1024,8,fast" }' >"$out/long.csv"
expect 2 "plan: error: 199900 more rows are wrong" "$out/long.csv" configs/clusters/h100-8x8.yaml
[ "$(wc -l <"$out/errors")" -eq 101 ] || fail "$(wc -l <"$out/errors") lines"

# nobody guesses which collective it was; sums are told by their bandwidths
nccl none 0.9375 '' >"$out/b.txt"
expect 2 "b.txt:18:1: error: the output does not say which collective this is: all_gather, alltoall or another; say --collective all_gather, or put it in the file's name" \
    "$out/b.txt" configs/clusters/h100-8x8.yaml
[ "$(wc -l <"$out/errors")" -eq 1 ] || fail "asked more than once: $(cat "$out/errors")"
"$plan" fit --collective all_gather "$out/b.txt" configs/clusters/h100-8x8.yaml | cmp - "$out/links" ||
    fail "--collective"
nccl none 0.9375 '' 60e9 >"$out/c.txt" # each sends half of it over its own port
"$plan" fit --collective alltoall "$out/c.txt" configs/clusters/h100-8x8.yaml >"$out/alltoall" || fail "alltoall"
"$plan" fit --collective all_to_all "$out/c.txt" configs/clusters/h100-8x8.yaml | cmp - "$out/alltoall" ||
    fail "all_to_all is not alltoall"
cp "$out/b.txt" "$out/all_gather-16.txt"
"$plan" fit "$out/all_gather-16.txt" configs/clusters/h100-8x8.yaml | cmp - "$out/links" || fail "the file's name"
nccl sum 1.875 all_reduce_perf >"$out/named.txt"
nccl sum 1.875 '' >"$out/sum.txt"
for file in named sum; do
    "$plan" fit "$out/$file.txt" configs/clusters/h100-8x8.yaml >"$out/$file"
done
cmp "$out/named" "$out/sum" || fail "an all_reduce is not told by its bandwidths"
expect 2 "--collective must be all_reduce, all_gather, reduce_scatter or alltoall, not 'gather'" --collective gather "$out/b.txt"

# versions of nccl-tests: columns that a collective does not use were left out, and more blanks stood before a rank;
# newer ones may add columns. A file of several runs has each with its own ranks, groups their own collectives.
sed -E 's/^#  Rank +([0-9]+) Group  0/#   Rank \1/' "$out/a.txt" | awk '/^#/ { print; next } !named++ {
    print "#  size  count  type  time  algbw  busbw  error  time  algbw  busbw  error" }
    { print $1, $2, $3, $6, $7, $8, "5e-07", $6, $7, $8, "5e-07" }' >"$out/old.txt"
awk '/^#/ { print; next } !named++ {
    print "#  size  count  type  redop  root  time  algbw  busbw  #wrong  i_min  time  algbw  busbw  #wrong  i_min" }
    { print $1, $2, $3, $4, $5, $6, $7, $8, "N/A", 1, $6, $7, $8, "N/A", 1 }' "$out/a.txt" | sed 's/$/\r/' >"$out/new.txt"
sed '/^[0-9]/s/ 0$/ 7/' "$out/a.txt" >"$out/wrong.txt"
cat "$out/a.txt" "$out/a.txt" >"$out/both.txt"
for rank in $(seq 16 31); do echo "#  Rank $rank Group  1 Pid 1 on host device 0 GPU"; done >"$out/ranks"
sed "/^#  Rank  15/r $out/ranks" "$out/a.txt" >"$out/split.txt"
for file in old new split; do
    "$plan" fit "$out/$file.txt" configs/clusters/h100-8x8.yaml | cmp - "$out/links" || fail "nccl-tests as in $file"
done
"$plan" fit "$out/both.txt" configs/clusters/h100-8x8.yaml | grep -q '#   all_gather of 16: ' || fail "16 ranks twice are not 32"
expect 2 "wrong.txt:18:1: error: its results were wrong, as '#wrong' counts: its time is of no use" "$out/wrong.txt"
sed 's/ -1 / 0 /' "$out/a.txt" >"$out/root.txt"
expect 2 "root.txt:18:1: error: a collective with a root, such as broadcast and reduce: plans have none" "$out/root.txt"
sed 's/ time / cputime /g; s/^#.*algbw/# size count type redop root cputime algbw/' "$out/new.txt" >"$out/cpu.txt"
expect 2 "cpu.txt:18:1: error: no columns time, algbw and busbw, as of nccl-tests with -C, which prints the time of the processor" \
    "$out/cpu.txt"
sed '/^#  Rank  3 /d' "$out/a.txt" >"$out/less.txt"
expect 2 "less.txt:5:1: error: ranks are missing above this one; give the whole output of nccl-tests" "$out/less.txt"

# a cell more than there are names, as where a number has a comma; empty ones are none
printf 'op,accelerators,message_bytes,latency_us\nall_gather,8,1,048,576\n' >"$out/times.csv"
expect 2 "times.csv:2:20: error: more cells than the 4 columns; put one that has a comma in quotes" "$out/times.csv" configs/clusters/h100-8x8.yaml
printf 'op,accelerators,message_bytes,latency_us\nall_gather,8,1048576,50,,\n' >"$out/times.csv"
"$plan" fit "$out/times.csv" configs/clusters/h100-8x8.yaml >/dev/null || fail "empty cells at the end"

# what is of no link that was given is not passed over in silence
printf 'op,accelerators,message_bytes,latency_us\nall_gather,4096,1048576,5000\n' >"$out/times.csv"
expect 1 "times.csv:2:25: error: none of the 1 collectives is one of a given cluster, on its accelerator and over no more ranks than it has" \
    "$out/times.csv" configs/clusters/h100-8x8.yaml
expect 1 "name the cluster that was measured" "$out/times.csv"

# all mistakes at once
printf 'model,gpu,n_gpus,seq_len,micro_batch,tok_s_gpu\nm,a100,8,1024,1,\nm,a100,0,1024,1,5\n' >"$out/runs.csv"
printf 'collective,payload_bytes,gpus,busbw_GBps\nall_reduce,1024,1,5\nsend,1024,8,5\n' >"$out/links.csv"
expect 2 "runs.csv:2:1: error: a row needs tok_s_gpu" "$out/runs.csv" "$out/links.csv"
[ "$(grep -c ': error: ' "$out/errors")" -eq 4 ] || fail "not all four mistakes: $(cat "$out/errors")"

printf 'op,accelerators,message_bytes,latency_us\nall_gather,8,1024,0\n' >"$out/times.csv"
expect 2 "times.csv:2:1: error: a row needs an op, at least 2 accelerators and a latency_us above 0" "$out/times.csv"
printf 'op,accelerators,latency_us\nall_gather,8,5\n' >"$out/times.csv"
expect 2 "times.csv:1:1: error: not nccl-tests output, nor a CSV with the columns collective, payload_bytes, gpus and \
busbw_GBps, or op, message_bytes, accelerators and latency_us" "$out/times.csv"

# a value that is not its column's, at its place; a whole number may be written 8.0, and 8? where its source was not sure
h100=configs/clusters/h100-8x8.yaml
run() { printf 'model,gpu,n_gpus,seq_len,micro_batch,tok_s_gpu\nllama-8b,h100_80gb,%s,%s,%s,%s\n' "$@" >"$out/runs.csv"; }
run '8 k' 8192 2 9000
expect 2 "runs.csv:2:20: error: 'n_gpus' must be a whole number, not '8 k'" "$out/runs.csv" $h100 configs/models/llama-8b.yaml
run 64.9 8192 2 9000
expect 2 "runs.csv:2:20: error: 'n_gpus' must be a whole number, not '64.9'" "$out/runs.csv" $h100 configs/models/llama-8b.yaml
run 64 8192x 2 9000
expect 2 "runs.csv:2:23: error: 'seq_len' must be a whole number, not '8192x'" "$out/runs.csv" $h100 configs/models/llama-8b.yaml
run 64 8192 2 abc
expect 2 "runs.csv:2:30: error: 'tok_s_gpu' must be a number, not 'abc'" "$out/runs.csv" $h100 configs/models/llama-8b.yaml
run 64 8192 2 $'9\x01\xc2\x9b0'
expect 2 "runs.csv:2:30: error: 'tok_s_gpu' must be a number, not '9??0'" "$out/runs.csv" $h100 configs/models/llama-8b.yaml
run 64 $'81\x1b[31m' 2 9000
expect 2 "runs.csv:2:23: error: 'seq_len' must be a whole number, not '81?[31m'" "$out/runs.csv" $h100 configs/models/llama-8b.yaml
run 64 8192 2 400000
expect 2 "runs.csv:2:30: error: 'tok_s_gpu' of 400000 is 20.8 times what the peak of h100-sxm-80gb allows this model, 1.921e+04" \
    "$out/runs.csv" $h100 configs/models/llama-8b.yaml
run 64.0 '8192?' 2 9000
"$plan" fit "$out/runs.csv" $h100 configs/models/llama-8b.yaml >/dev/null || fail "64.0 accelerators"
printf 'op,accelerators,message_bytes,latency_us\nall_gather,8,1 k,5\n' >"$out/times.csv"
expect 2 "times.csv:2:14: error: 'message_bytes' must be a number, not '1 k'" "$out/times.csv" $h100
printf 'm,n,k,latency_us\n1,2,a\x07c,4\n' >"$out/few.csv"
expect 2 "few.csv:2:5: error: 'k' must be a number, not 'a?c'" "$out/few.csv" $h100
printf 'm,n,k,latency_us\n1,2,abc,4\n' >"$out/few.csv"
expect 2 "few.csv:2:5: error: 'k' must be a number, not 'abc'" "$out/few.csv" $h100
printf 'phase,batch,tokens,cached,heads,kv_heads,head_dim,latency_us\nprefill,1,64 k,0,8,8,128,5\n' >"$out/few.csv"
expect 2 "few.csv:2:11: error: 'tokens' must be a number, not '64 k'" "$out/few.csv" $h100

printf 'op,accelerators,message_bytes,latency_us\nall_gather,8,1e9,0.5e2\n' >"$out/times.csv"
expect 2 "times.csv:2:18: error: 38.9 times what the bandwidth of 'nvlink' allows; check its unit, and the link's bandwidth" "$out/times.csv" $h100
printf 'm,n,k,latency_us\n8192,8192,8192,2\n' >"$out/few.csv"
expect 2 "few.csv:2:16: error: a product of 8192 x 8192 x 8192 takes 1112 us at the peak of h100-sxm-80gb and not less" "$out/few.csv" $h100

# tables as other programs write them: a mark before the first name, comments above the names, quotes, blanks behind
# commas, and the ends of lines of Windows with an empty one at last
product=8192,8192,8192,2
expect_product() { expect 2 "odd.csv:$1: error: a product of 8192 x 8192 x 8192 takes 1112 us at the peak of h100-sxm-80gb" "$out/odd.csv" $h100; }
printf '\xef\xbb\xbfm,n,k,latency_us\n%s\n' $product >"$out/odd.csv"
expect_product 2:16
printf '# measured\n\nm,n,k,latency_us\n%s\n' $product >"$out/odd.csv"
expect_product 4:16
printf '\xef\xbb\xbf# measured\nm,n,k,latency_us\n%s\n' $product >"$out/odd.csv"
expect_product 3:16
printf '"m","n","k","latency_us"\n"8192","8192","8192","2"\n' >"$out/odd.csv"
expect_product 2:22
printf 'm, n, k, latency_us\r\n8192, 8192, 8192, 2\r\n\r\n' >"$out/odd.csv"
expect_product 2:19
printf '\xef\xbb\xbfop,accelerators,message_bytes,latency_us\nall_gather,8,-4,5\n' >"$out/times.csv"
expect 2 "times.csv:2:14: error: 'message_bytes' must be at least 0, not -4" "$out/times.csv" $h100
{ printf 'm,n,k,latency_us\n8192,8192,8192,2' && head -c 5000 /dev/zero | tr '\0' ' ' && echo 000; } >"$out/long.csv"
expect 2 "long.csv:2:1: error: a line of 4096 bytes and more; is it a table?" "$out/long.csv" $h100
printf 'm,n,k,latency_us\n8192,8192\0,8192,2\n' >"$out/long.csv"
expect 2 "long.csv:2:1: error: a line with a byte 0; is it a table?" "$out/long.csv" $h100

printf '\xef\xbb\xbf# measured\nop,accelerators,message_bytes,latency_us\nall_gather,8,-4,5\n' >"$out/times.csv"
expect 2 "times.csv:3:14: error: 'message_bytes' must be at least 0, not -4" "$out/times.csv" $h100
expect 2 "$out: error: cannot read it: Is a directory" "$out" $h100

# collectives that are all small have a curve of a point each, in a list that is read again
awk 'BEGIN { print "op,accelerators,message_bytes,latency_us"
    for (i = 1; i < 30; i++) for (n = 4; n <= 8; n *= 2) printf "all_gather,%d,%d,%g\n", n, 8 * i, 9 + 0.01 * i }' >"$out/times.csv"
"$plan" fit "$out/times.csv" $h100 >"$out/links" || fail "small collectives"
{
    sed '/^links:/,$d' $h100 | sed "s|\.\./accelerators|$PWD/configs/accelerators|"
    cat "$out/links"
} >"$out/c.yaml"
"$plan" check "$out/c.yaml" | grep -q 'ok, a cluster' || fail "small collectives: $("$plan" check "$out/c.yaml" 2>&1)"

# the software becomes a profile's name
printf 'software,model,gpu,n_gpus,seq_len,micro_batch,tok_s_gpu\n"a: [b",llama-8b,h100_80gb,8,8192,2,9000\n' >"$out/runs.csv"
expect 2 "runs.csv:2:1: error: 'software' must be a name of letters, digits, '.', '_' or '-', not 'a: [b'" \
    "$out/runs.csv" $h100 configs/models/llama-8b.yaml
run 16777216 1073741824 65536 9000
expect 2 "runs.csv:2:1: error: more tokens in a step than 2^40" "$out/runs.csv" $h100 configs/models/llama-8b.yaml

# attention faster than the chip is, as where milliseconds were given
attention=phase,batch,tokens,cached,heads,kv_heads,head_dim,latency_us
printf '%s\nprefill,1,8192,0,32,8,128,0.2\n' $attention >"$out/few.csv"
expect 2 "few.csv:2:27: error: attention of 32 heads of 128 over 8192 tokens takes 555.9 us at the peak of h100-sxm-80gb" "$out/few.csv" $h100
printf '%s\ndecode,64,1,8191,32,8,128,0.2\n' $attention >"$out/few.csv"
expect 2 "few.csv:2:27: error: attention of 512 heads of 128 over 8192 tokens takes 64.1 us at the tenfold memory_bandwidth of" \
    "$out/few.csv" $h100

# what a whole table lacks is said once, where its columns are named; one without rows has nothing to fit to
printf '# runs\nmodel,gpu,seq_len,tok_s_gpu\nm,a,1,1\nm,a,1,1\n' >"$out/runs.csv"
expect 2 "runs.csv:2:1: error: a table of runs lacks columns: n_gpus, micro_batch or local_batch_seqs; 'plan fit --help' says what each is" \
    "$out/runs.csv" $h100
[ "$(wc -l <"$out/errors")" -eq 1 ] || fail "said more than once: $(cat "$out/errors")"
for columns in model,gpu,n_gpus,seq_len,micro_batch,tok_s_gpu m,n,k,latency_us op,accelerators,message_bytes,latency_us \
    phase,batch,tokens,cached,heads,kv_heads,head_dim,latency_us; do
    echo $columns >"$out/empty.csv"
    expect 2 "empty.csv:1:1: error: no rows below the names of the columns" "$out/empty.csv" $h100
done

# links stay those of a cluster of any size, and one of which only latencies were measured has the default's curve
printf 'op,accelerators,message_bytes,latency_us\nall_gather,8,8,20\nall_gather,4,8,12\n' >"$out/times.csv"
"$plan" fit "$out/times.csv" $h100 >"$out/links"
grep -q '^  - {name: nvlink, spans: node,' "$out/links" || fail "spans in a node: $(cat "$out/links")"
grep -q '^  - {name: infiniband, spans: all,' "$out/links" || fail "spans of all: $(cat "$out/links")"
grep -q 'efficiency: \[\]' "$out/links" && fail "an empty curve: $(cat "$out/links")"
{
    sed '/^links:/,$d' $h100 | sed "s|\.\./accelerators|$PWD/configs/accelerators|"
    cat "$out/links"
} >"$out/c.yaml"
"$plan" check --set nodes=2 "$out/c.yaml" | grep -q 'ok, a cluster' || fail "other nodes: $("$plan" check --set nodes=2 "$out/c.yaml" 2>&1)"

# shares that are all at their most say that the figures are not this link's
printf 'op,accelerators,message_bytes,latency_us\nall_gather,8,1e9,1000\nall_gather,8,2e9,2000\n' >"$out/times.csv"
"$plan" fit "$out/times.csv" $h100 | grep -qx '  # every share is at its most: raise the bandwidth of nvlink' || fail "no word of a low bandwidth"

# the links that are shipped, from the table that they were made from: launch, latency and curve come out again
"$plan" fit configs/clusters/h100-8x8.yaml $published/data/published_nccl.csv >"$out/nccl.yaml"
grep -q '^  # nvlink: 252 collectives, mean error 2.2 % as described, 2.2 % fitted' "$out/nccl.yaml" ||
    fail "links of tables: $(cat "$out/nccl.yaml")"
grep -q '^     collectives: \[\[all_gather, 2, 4096, ' "$out/nccl.yaml" || fail "no curves of single collectives"
grep -q '^  #   all_gather of 8: median error ' "$out/nccl.yaml" || fail "no errors by collective and ranks"

# three constants are not fitted to two rows: one factor of what is assumed
head -n 6 $published/data/published_fsdp.csv >"$out/few.csv"
"$plan" fit "$out/few.csv" $published/clusters/foundry-h100-80gb.yaml >"$out/few.yaml" 2>"$out/errors"
grep -q '^# Fewer than 4 runs do not tell three constants apart' "$out/few.yaml" || fail "no word of few runs"
awk '/^matmul:/ { m = $2 / 0.619 } /^attention:/ { a = $2 / 0.28 }
    END { exit !(m > 0 && a / m > 0.99 && a / m < 1.01) }' "$out/few.yaml" || fail "not one factor: $(cat "$out/few.yaml")"
"$plan" check "$out/few.yaml" | grep -q 'ok, a profile' || fail "it is no profile"

# runs that are as fast as the peaks allow at most say which figures those are
run 64 8192 2 17000
"$plan" fit "$out/runs.csv" $h100 configs/models/llama-8b.yaml >"$out/fast.yaml" || fail "fast runs"
grep -q "^# Every share is at its most: raise 'peak' and 'memory_bandwidth' of h100-sxm-80gb" "$out/fast.yaml" ||
    fail "no word of low peaks: $(cat "$out/fast.yaml")"

# our own logs: the plan and what `runner train` wrote
"$plan" emit configs/runs/quickstart.yaml -o "$out" >/dev/null
expect 2 "fewer than 3 steps; let it run longer" "$out/quickstart.plan.yaml" "$out/metrics.jsonl"
for step in 1 2 3 4 5; do
    echo "{\"step\":$step,\"loss\":5.0,\"step_seconds\":0.31,\"tokens\":1}"
done >"$out/metrics.jsonl"
"$plan" fit "$out/quickstart.plan.yaml" "$out/metrics.jsonl" | grep -q '1 runs of 1 models' ||
    fail "metrics were not fitted"

# the catalogue
"$plan" check configs/accelerators/*.yaml configs/clusters/*.yaml $published/*/*.yaml >"$out/check" ||
    fail "$(cat "$out/check")"
