#!/usr/bin/env bash
# `plan search --for serve`: every mesh once; a row is what `plan explain` says of its mesh, alone and beside
# training; a second, naive implementation of the printed rule ranks alike; a settings that a rejection
# names makes the mesh fit; latency goals; weights streamed where they do not fit else; the time of a token
# does not grow with sp where the context does, but for its reductions.
#
#   tests/property/test_search_serve.sh [BUILD-FOLDER]
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
build=$(cd "${1:-build}" && pwd) || exit 2
out=$build/tests/search_serve
rm -rf "$out"
mkdir -p "$out"
exec python3 - "$build/plan" "$out" <<'PYTHON'
import json, math, subprocess, sys

plan, out = sys.argv[1:]

def run(*arguments, code=0):
    done = subprocess.run([plan, *arguments], capture_output=True, text=True)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done

def settings(**values):
    return [word for key, value in values.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]

def search(file, *more, code=0, **values):
    done = run("search", file, "--for", "serve", "--json", "--rejected", *more, *settings(**values), code=code)
    return json.loads(done.stdout), done.stderr

def sizes(row):
    return [int(n) for n in row["mesh_dim"].split(",")]

def misses(row):
    return row["misses_token_latency"] or row["misses_first_token_latency"]

def naive_key(row):  # the rule, as it is printed
    dp, fsdp, tp, sp = sizes(row)
    return (misses(row), row["token_seconds"], row["first_token_seconds"],
            -row["tokens_per_second_per_accelerator"], row["memory"]["total"], -fsdp, -dp, -sp)

def check_whole(found, accelerators):
    rows, rejected = found["candidates"], found["rejected"]
    names = [row["mesh_dim"] for row in rows + rejected]
    assert len(names) == len(set(names)) == found["evaluated"], "a mesh is missing, or twice"
    assert all(math.prod(sizes(row)) == accelerators for row in rows + rejected)
    assert rows == sorted(rows, key=naive_key), "not the order of the rule"
    assert found["keeping"] == sum(not misses(row) for row in rows)
    if found["keeping"]:
        assert found["chosen"] == rows[0]
    for row in rejected:
        assert row["detail"] and row["help"] and row["reason"] != "fits", row
    for row in rows:
        m = row["memory"]
        assert m["total"] == m["arena"] + m["reserved"] <= m["limit"] - m["headroom"], row
        assert m["arena"] == m["weights"] + m["cache"] + m["transients"], row
        parts = [row[k] for k in ("weights_seconds", "cache_seconds", "rest_seconds", "waiting_seconds")]
        assert math.isclose(sum(parts), row["token_seconds"], rel_tol=1e-6), row
        assert 0 <= row["reduction_latency_seconds"] <= row["reduction_seconds"] * (1 + 1e-9), row
        assert (row["reductions"] > 0) == (row["reduction_seconds"] > 0), row
        assert row["texts"] % (sizes(row)[0] * sizes(row)[1]) == 0, row

runs = [("configs/runs/llama-8b-64.yaml", 64, dict(serve__max_batch=8, serve__max_tokens=131072)),
        ("configs/runs/qwen3-8b-64.yaml", 64, dict(serve__max_batch=3, serve__max_tokens=4096)),
        ("configs/runs/quickstart.yaml", 8, dict(mesh_dim="auto", serve__max_batch=2, serve__max_tokens=256))]
for file, accelerators, values in runs:
    found, _ = search(file, **values)
    check_whole(found, accelerators)
    rows = found["candidates"]
    for row in rows[:: max(1, len(rows) // 6)]:
        # alone, it gets what it got among the others
        alone = json.loads(run("explain", file, "--for", "serve", "--json", *settings(**values),
                               "--mesh_dim", row["mesh_dim"]).stdout)["mesh"]
        assert alone == row, (row, alone)
        # and beside training, on the same order of ranks
        named = ",".join(f"{axis}:{dict(zip(('dp', 'fsdp', 'tp', 'sp'), sizes(row)))[axis]}"
                         for axis in row["axis_order"].split(","))
        done = subprocess.run([plan, "explain", file, "--json", *settings(**values), "--mesh_dim", named],
                              capture_output=True, text=True)
        if done.returncode not in (0, 1) or not done.stdout:
            continue  # no training on it
        beside = json.loads(done.stdout)["serving"]
        for key in ("texts", "max_tokens", "chunk", "prompt_tokens", "cache", "stream_weights", "token_seconds",
                    "first_token_seconds", "tokens_per_second", "sent_bytes_per_token"):
            assert beside[key] == row[key], (key, row, beside)
        assert beside["arena_bytes"] == row["memory"]["arena"]
        assert beside["weight_bytes"] == row["memory"]["weights"]
        assert beside["cache_bytes"] == row["memory"]["cache"]
    text = run("search", file, "--for", "serve", *settings(**values)).stdout
    for word in ("why       of those that fit with headroom: the least time per token, then the least time to the",
                 "limited by", "tok/s/acc", "reductions", "training needs", "while only decoding", "read alone; at most"):
        assert word in text, word

# latency goals: those that miss one come behind the others and say so
file, _, values = runs[0]
free, _ = search(file, **values)
times = sorted(row["token_seconds"] for row in free["candidates"])
goal = times[len(times) // 3]
found, _ = search(file, **values, serve__token_latency=goal, serve__first_token_latency="3600 s")
check_whole(found, 64)
assert 0 < found["keeping"] < found["feasible"] == free["feasible"]
assert found["token_latency"] == goal and found["first_token_latency"] == 3600
assert {r["mesh_dim"] for r in found["candidates"] if r["misses_token_latency"]} == \
    {r["mesh_dim"] for r in free["candidates"] if r["token_seconds"] > goal}
text = run("search", file, "--for", "serve", "--top", "99", *settings(**values, serve__token_latency=goal)).stdout
assert text.count("; misses token_latency") == found["feasible"] - found["keeping"]
assert "goal      token_latency" in text and "kept, " in text and "and keep the latency goals" in text
found, said = search(file, **values, serve__first_token_latency="1 ms", code=1)
assert found["keeping"] == 0 and found["chosen"] is None
assert "none of 84 meshes keeps the latency goals of 'llama-8b-64': mesh_dim " in said, said
assert " misses serve.first_token_latency 1.00 ms with " in said, said

# a smaller budget, with which a token beside prompts keeps its goal, is not taken where the first token then misses its own
eased = dict(mesh_dim="1,2,8,1", cluster__nodes=2, serve__max_batch=64, serve__max_tokens=8192, serve__token_latency="8 ms")
small, _ = search(file, **eased)
found, _ = search(file, **eased, serve__first_token_latency="90 ms")
small, found = small["chosen"], found["chosen"]
assert small["token_seconds_beside_prompts"] <= 0.008 and small["first_token_seconds_beside_others"] > 0.09, small
assert found["token_budget"] > small["token_budget"] and found["first_token_seconds_beside_others"] <= 0.09, found

# weights are streamed where they do not fit else, and the plan says it
file, values = "configs/runs/llama-70b-512.yaml", dict(cluster__nodes=1, serve__max_batch=8, serve__max_tokens=4096)
found, _ = search(file, **values)
check_whole(found, 8)
rows = {row["mesh_dim"]: row for row in found["candidates"]}
assert rows["1,8,1,1"]["stream_weights"] and not rows["1,1,8,1"]["stream_weights"], rows.keys()
assert rows["1,8,1,1"]["gather_seconds"] > 0 == rows["1,1,8,1"]["gather_seconds"]
gathered, _ = search(file, **values, serve__stream_weights="false")
row = next(row for row in gathered["rejected"] if row["mesh_dim"] == "1,8,1,1")
assert row["reason"] == "memory" and "weights 141 GB, cache" in row["detail"], row
always, _ = search(file, **values, serve__stream_weights="true")
assert next(r for r in always["candidates"] if r["mesh_dim"] == "1,8,1,1") == rows["1,8,1,1"]

# what a rejection says makes the mesh fit
values = dict(cluster__nodes=1, serve__max_batch=512, serve__max_tokens=131072)
found, said = search(file, **values, code=1)
assert found["feasible"] == 0 and "none of 20 meshes can serve 'llama-70b-512'; the closest is" in said, said
helped = 0
for row in found["rejected"]:
    # every rank of such a mesh has its share already
    assert not row["mesh_dim"].startswith("1,1,") or "tp or sp" not in row["help"], row
    for key in ("serve.max_batch", "serve.max_tokens"):
        if f"use {key}: " not in row["help"]:
            continue
        value = int(row["help"].split(f"use {key}: ")[1].split(",")[0])
        again, _ = search(file, **{**values, key.replace(".", "__"): value})
        assert row["mesh_dim"] in {r["mesh_dim"] for r in again["candidates"]}, row
        helped += 1
assert helped >= 3, helped

# a context that grows with sp: a token takes no longer but for its reductions
file, before = "configs/runs/llama-8b-64.yaml", None
for nodes in (1, 2, 4, 8):
    found, _ = search(file, "--mesh_dim", f"1,1,8,{nodes}", cluster__nodes=nodes, serve__max_batch=4,
                      serve__max_tokens=65536 * nodes)
    row = found["candidates"][0]
    if before is not None:
        assert math.isclose(row["cache_seconds"], before["cache_seconds"], rel_tol=1e-6), (row, before)
        assert row["weights_seconds"] <= before["weights_seconds"], (row, before)
        assert row["token_seconds"] - row["reduction_seconds"] <= \
            (before["token_seconds"] - before["reduction_seconds"]) * 1.01, (row, before)
        assert row["reduction_latency_seconds"] > 0.9 * row["reduction_seconds"], row
    before = row
    longer, _ = search(file, "--mesh_dim", f"1,1,8,{nodes}", cluster__nodes=nodes, serve__max_batch=4,
                       serve__max_tokens=2 * 65536 * nodes)
    for key in ("reductions", "reduction_seconds", "sent_bytes_per_token"):
        assert longer["candidates"][0][key] == row[key], key

# what it refuses
assert run("search", file, "--for", "serve", code=2).stderr == \
    "plan: error: the run has no serve section; add serve: {max_batch: 8}, or --set serve.max_batch=8\n"
assert run("search", file, "--for", "chat", code=2).stderr == "plan: error: --for must be train or serve, not 'chat'; see 'plan search --help'\n"
assert "--for serve goes neither with --program nor with --html" in \
    run("explain", file, "--for", "serve", "--program", "decode", code=2).stderr
found, said = search(file, "--mesh_dim", "1,2,3,4", code=1, serve__max_batch=8)
assert found["rejected"][0]["reason"] == "product" and "cannot serve" in said, (found, said)
print("ok")
PYTHON
