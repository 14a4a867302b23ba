#!/usr/bin/env bash
# The CUDA device has kernels for every GPU generation that it was built for, and what later ones
# compile at start: test_cuda_code.sh MODULE ARCHITECTURE...
set -euo pipefail
python3 - "$@" <<'PY'
import struct, sys

path, wanted = sys.argv[1], [int(a) for a in sys.argv[2:]]
data = open(path, "rb").read()
magic = struct.pack("<I", 0xBA55ED50)  # a fat binary: header, then entries with a header each
compiled, source, binaries = set(), set(), 0
at = data.find(magic)
while at >= 0:
    header, size = struct.unpack_from("<6xHQ", data, at)
    entry, end = at + header, at + header + size
    compiled_here = set()
    while entry < end:
        kind, entry_header, payload, arch = struct.unpack_from("<H2xIQ12xI", data, entry)
        if kind == 2:
            compiled_here.add(arch)
        elif kind == 1:
            source.add(arch)
        entry += entry_header + payload
    compiled = compiled & compiled_here if binaries else compiled_here
    binaries += 1
    at = data.find(magic, end)
print(f"{binaries} files of kernels, each for {sorted(compiled)}; to compile: {sorted(source)}")
missing = set(wanted) - compiled
if missing or max(wanted) not in source:
    sys.exit(f"FAIL: wanted {sorted(set(wanted))}")
PY
