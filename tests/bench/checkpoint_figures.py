"""The arithmetic of bench_checkpoint.sh.

checkpoint_figures.py stamp              copies lines, each with the time at which it came
checkpoint_figures.py report CASE.json   one table row for each case, from files that the script lists
"""
import json
import statistics
import sys
import time


def stamp():
    for line in sys.stdin:
        print(json.dumps({"at": time.monotonic(), **json.loads(line)}), flush=True)


def read_run(path):
    """(steps, saves) of one stamped metrics.jsonl.

    A step: number, seconds of its own, `outside`: what passed between the step before and this one
    besides, which is the pause of a save, the ranks' vote, handing over checksums; the `saves` that
    were under way. The line of a save stands behind the step at which it was durable."""
    steps, saves, before = [], [], None
    with open(path, encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if "checkpoint_step" in line:
                saves.append(line)
                for step in steps:
                    if step["step"] > line["checkpoint_step"]:
                        step["saves"].append(line["checkpoint_step"])
            elif "step_seconds" in line:
                outside = None if before is None else line["at"] - before - line["step_seconds"]
                steps.append({"step": line["step"], "seconds": line["step_seconds"],
                              "outside": outside, "saves": []})
                before = line["at"]
    return steps, saves


def median(values):
    values = list(values)
    return statistics.median(values) if values else float("nan")


def usual(steps, skip):
    return [s for s in steps if s["step"] > skip]


def whole_stalls(steps, saves, skip, idle_outside):
    """For each save: what passed outside of steps from its step until it was durable, above what
    passes there in a run without saves."""
    stalls = []
    for save in saves:
        window = [s for s in steps if save["checkpoint_step"] in s["saves"]]
        if save["checkpoint_step"] > skip and window:
            stalls.append(sum(s["outside"] - idle_outside for s in window))
    return stalls


def lost_seconds(steps, saves, usual_step):
    """For each save: what the steps while it was written took longer than usual, in sum."""
    lost = []
    for save in saves:
        window = [s for s in steps if save["checkpoint_step"] in s["saves"]]
        if window:
            lost.append(sum(s["seconds"] - usual_step for s in window))
    return lost


def against(value, limit, peer):
    return f"{value:.2f} s, {value / peer:.2f} of cp and sync: {verdict(value / peer, limit)} ({limit} wanted)"


def spread(values):
    """A quarter of the values are further below the median, a quarter further above: as a share."""
    values = sorted(values)
    if len(values) < 4:
        return float("nan")
    quarter = statistics.quantiles(values, n=4)
    return (quarter[2] - quarter[0]) / 2 / statistics.median(values)


def verdict(value, limit):
    return "holds" if value <= limit else "missed"


def report_case(case):
    every, skip = case["every"], case["skip"]
    explain = json.load(open(case["explain"], encoding="utf-8"))["checkpoint"]
    explain.setdefault('link_seconds', explain['exchange_seconds'])
    with_runs = [read_run(p) for p in case["with"]]
    without_runs = [read_run(p) for p in case["without"]]
    idle = [s for steps, _ in without_runs for s in usual(steps, skip)]
    idle_outside = median(s["outside"] for s in idle)
    saves = [s for steps, done in with_runs for s in done
             if skip < s["checkpoint_step"] and s["checkpoint_step"] < steps[-1]["step"]]
    whole = [w for steps, done in with_runs
             for w in whole_stalls(steps, done, skip, idle_outside)]
    writing = [s["seconds"] for steps, _ in with_runs for s in usual(steps, skip) if s["saves"]]
    rest = [s["seconds"] for steps, _ in with_runs for s in usual(steps, skip) if not s["saves"]]
    without = [s["seconds"] for s in idle]
    last = [s for steps, done in with_runs for s in done
            if s["checkpoint_step"] >= steps[-1]["step"]]
    lost = median(x for steps, done in with_runs
                  for x in lost_seconds(steps, [s for s in done if s in saves], median(rest)))
    pause = median(s["pause_seconds"] for s in saves)
    stall = median(whole)
    copy = explain["most_bytes_of_a_rank"] / case["copy_rate"]
    limit = 1.5 * (copy + explain["link_seconds"])
    rate = median(s["checkpoint_bytes"] / s["write_seconds"] for s in saves)
    step = median(without)
    rows = [
        ("ranks, mesh dp,fsdp,tp,sp", f"{case['ranks']}, {case['mesh']}"),
        ("checkpoint, of one rank", f"{explain['bytes'] / 1e6:.1f} MB, {explain['most_bytes_of_a_rank'] / 1e6:.1f} MB"),
        ("saves, steps looked at", f"{len(saves)}, {len(writing) + len(rest)} with and {len(without)} without"),
        ("step without saves, median", f"{step:.4f} s (half of all within {spread(without) * 100:.1f} %)"),
        ("pause, median (least to most)", f"{pause * 1e3:.1f} ms ({min(s['pause_seconds'] for s in saves) * 1e3:.1f} to {max(s['pause_seconds'] for s in saves) * 1e3:.1f})"),
        ("whole stall, median (least to most)", f"{stall * 1e3:.1f} ms ({min(whole) * 1e3:.1f} to {max(whole) * 1e3:.1f})"),
        ("`explain` says", f"{explain['stall_seconds'] * 1e3:.1f} ms: {(explain['stall_seconds'] / stall - 1) * 100:+.0f} % of the whole stall, {(explain['stall_seconds'] / pause - 1) * 100:+.0f} % of the pause (wanted: 20 %)"),
        ("1.5 (bytes / memcpy rate + exchange)", f"1.5 ({copy * 1e3:.1f} ms at {case['copy_rate'] / 1e9:.2f} GB/s + {explain['link_seconds'] * 1e3:.1f} ms) = {limit * 1e3:.1f} ms: {verdict(stall, limit)}, {stall / limit:.2f} of it"),
        ("all steps with saves, median and mean", f"{(median(writing + rest) / step - 1) * 100:+.1f} %, {(statistics.mean(writing + rest) / statistics.mean(without) - 1) * 100:+.1f} % (wanted: 3 %)"),
        ("steps while one is written", f"{len(writing)}: {(median(writing) / step - 1) * 100:+.1f} %; in the same runs, against those while none is: {(median(writing) / median(rest) - 1) * 100:+.1f} %"),
        ("durable after, beside training", against(median(s["durable_seconds"] for s in saves), 4, case["cp_seconds"])),
        ("durable after, at the end", against(median(s["durable_seconds"] for s in last), 1.3, case["cp_seconds"])),
        ("step time lost per save, in sum", f"{lost:.2f} s: {verdict(lost, 0.4)} (0.4 s wanted); pause {verdict(pause, 0.25)} (0.25 s wanted)"),
        ("written", f"{rate / 1e6:.0f} MB/s while training; cp and sync {explain['bytes'] / case['cp_seconds'] / 1e6:.0f} MB/s"),
        ("time lost to saves, of all", f"{stall / (every * step) * 100:.2f} % to the stall at every {every}th step"),
        ("other processes had, of the cores", ", ".join(f"{o * 100:.0f} %" for o in case["others"]) + f" in each run; load before: {case['load']}"),
    ]
    print(f"\n## {case['name']}\n\n| | |\n| --- | --- |")
    for name, text in rows:
        print(f"| {name} | {text} |")


if __name__ == "__main__":
    if sys.argv[1:] == ["stamp"]:
        stamp()
    else:
        for argument in sys.argv[2:]:
            report_case(json.load(open(argument, encoding="utf-8")))
