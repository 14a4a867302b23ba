#!/usr/bin/env python3
"""Writes files that attack a reader of safetensors, and sound ones that look odd.

    python3 tests/oracle/make_safetensors_attacks.py FOLDER             # NAME.safetensors of each
    pip install safetensors torch
    python3 tests/oracle/make_safetensors_attacks.py --record FOLDER    # and asks the format's own
                                                                        # reader about each

What must become of each is said here; what the format's own reader (the package `safetensors`) says
is recorded in tests/oracle/fixtures/safetensors_attacks.txt, a line of each file:

    NAME OURS PACKAGE what it is        OURS, PACKAGE: "refuse" or "accept"

Where they differ, ours is the stricter one: the format's description says that a header begins with
"{" and that no key appears twice, which its reader does not look at; a name with a NUL is another one
to C; names and dimensions have a limit. Without --record the script only makes sure that the list is
about the same files.
"""
import argparse
import json
import pathlib
import struct
import sys

LIST = pathlib.Path(__file__).parent / "fixtures" / "safetensors_attacks.txt"
MAX_HEADER = 100_000_000
SHORT = '{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'


class Sparse:
    """Bytes that end in a hole: the file is `size` bytes long."""
    def __init__(self, data, size):
        self.data, self.size = data, size


def file_of(header, data=b"", length=None):
    header = header if isinstance(header, bytes) else header.encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def tensor(dtype="F32", shape="[2,2]", offsets="[0,16]", more=""):
    return f'{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}{more}}}'


def one(**parts):
    """A file of one tensor, whose 16 bytes of data are there."""
    return file_of('{"a":' + tensor(**parts) + "}", bytes(16))


def several(*tensors, data=bytes(16)):
    return file_of("{" + ",".join(f'"{n}":{t}' for n, t in tensors) + "}", data)


def many(count):
    return file_of(json.dumps({f"t{i}": {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]}
                               for i in range(count)}), bytes(count))


def zip_file():
    """The least one: the end of an empty central directory."""
    return b"PK\x05\x06" + bytes(18)


GZIP = bytes.fromhex("1f8b08000000000000ff03000000000000000000")


def length_attacks():
    yield "empty_file", b"", "no byte"
    yield "seven_bytes", bytes(7), "shorter than the length of a header"
    yield "length_only", struct.pack("<Q", 64), "a length and nothing more"
    yield "header_of_no_bytes", file_of(b""), "a header of no bytes"
    yield "header_cut", file_of(SHORT[:-20], length=len(SHORT)), "ends within the header"
    yield "length_beyond_file", file_of(SHORT, bytes(16), length=1000), "length beyond the file"
    yield "length_one_beyond_file", file_of(SHORT, length=len(SHORT) + 1), "by one byte"
    yield "length_cuts_json", file_of(SHORT, bytes(16), length=len(SHORT) - 1), "ends too early"
    yield "length_into_data", file_of(SHORT, b"}" * 16, length=len(SHORT) + 1), "ends too late"
    yield "length_all_ones", file_of(SHORT, bytes(16), length=2**64 - 1), "8 + length overflows"
    yield "length_wraps_to_0", file_of(SHORT, bytes(16), length=2**64 - 8), "8 + length is 0"
    yield "length_negative", file_of(SHORT, bytes(16), length=2**63), "negative as int64"
    yield "length_beyond_int32", file_of(SHORT, bytes(16), length=2**32 + len(SHORT)), \
        "right in the lower 32 bits"
    yield "header_of_101_mb", Sparse(struct.pack("<Q", MAX_HEADER + 1) + SHORT.encode(),
                                     MAX_HEADER + 200), "more than the format allows, and there"
    yield "header_of_1_gb", Sparse(struct.pack("<Q", 2**30) + SHORT.encode(), 2**30 + 8), \
        "ten times as much"
    yield "big_endian_length", struct.pack(">Q", len(SHORT)) + SHORT.encode() + bytes(16), \
        "length in the other byte order"


def text_attacks():
    def header(text):
        return file_of(text, bytes(16))
    yield "no_json", header("hello"), "no JSON"
    yield "json_array", header("[" + SHORT + "]"), "an array around the object"
    yield "json_null", file_of("null"), "null"
    yield "json_string", file_of('"a"'), "a string"
    yield "json_number", file_of("1234"), "a number"
    yield "json_twice", header(SHORT + SHORT), "two objects"
    yield "json_and_more", header(SHORT + "x"), "text behind the object"
    yield "json_comment", header("/* */" + SHORT), "a comment"
    yield "json_trailing_comma", header(SHORT[:-1] + ",}"), "a comma too many"
    yield "json_single_quotes", header(SHORT.replace('"', "'")), "single quotes"
    yield "json_nan", one(shape="[NaN]"), "NaN"
    yield "json_hex", one(offsets="[0,0x10]"), "a hexadecimal number"
    yield "json_leading_zero", one(offsets="[0,016]"), "a number with a leading zero"
    yield "byte_order_mark", header(b"\xef\xbb\xbf" + SHORT.encode()), "a byte order mark"
    yield "utf_16", header(SHORT.encode("utf-16-le")), "UTF-16"
    yield "nul_padding", header(SHORT + "\0" * 8), "padded with NUL"
    yield "nul_before", header("\0" + SHORT), "begins with NUL"
    yield "leading_space", header(" " + SHORT), "does not begin with {"
    yield "deep_array", header('{"a":' + "[" * 500_000), "half a million brackets"
    yield "deep_object", header('{"a":' * 200_000), "200000 objects in each other"
    yield "bad_utf8", header(SHORT.encode().replace(b'"a"', b'"\xff\xfe"')), "no UTF-8"
    yield "overlong_utf8", header(SHORT.encode().replace(b'"a"', b'"\xc0\xaf"')), "overlong UTF-8"
    yield "surrogate_utf8", header(SHORT.encode().replace(b'"a"', b'"\xed\xa0\x80"')), \
        "a surrogate in UTF-8"
    yield "lone_surrogate", header(SHORT.replace('"a"', r'"\ud800"')), "half a surrogate pair"
    yield "control_character", header(SHORT.replace('"a"', '"a\nb"')), "a bare newline in a name"
    yield "bad_escape", header(SHORT.replace('"a"', r'"\x41"')), "an escape that JSON has not"


def polyglots():
    yield "zip_behind", file_of(SHORT, bytes(16) + zip_file()), "a zip archive behind the data"
    yield "zip_in_gap", several(("a", tensor("U8", "[4]", "[0,4]")),
                                ("b", tensor("U8", "[4]", "[26,30]")),
                                data=bytes(4) + zip_file() + bytes(4)), "one between two tensors"
    yield "zip_before", several(("a", tensor("U8", "[4]", "[22,26]")),
                                data=zip_file() + bytes(4)), "one before the first tensor"
    yield "zip_in_header", file_of(SHORT.encode() + zip_file(), bytes(16)), "one in the header"
    yield "zip_file", zip_file() + SHORT.encode(), "a zip archive"
    yield "gzip_file", GZIP + SHORT.encode(), "a gzip file"
    yield "gzip_in_header", file_of(SHORT.encode() + GZIP, bytes(16)), "one in the header"
    yield "pickle_file", b"\x80\x04\x95\x0a\x00\x00\x00\x00\x00\x00\x00}q\x00." + bytes(16), \
        "a pickle"
    yield "html_file", b"<!DOCTYPE html><script>alert(1)</script>", "a web page (a failed download)"
    yield "git_lfs_pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", \
        "a pointer to a file that was not downloaded"
    yield "json_in_data", several(("a", tensor("U8", "[4]", "[0,4]")),
                                  data=bytes(4) + SHORT.encode()), "a second header behind the data"


def key_attacks():
    a = tensor()
    yield "tensor_twice", several(("a", a), ("a", a)), "a name twice, the same tensor"
    yield "tensor_twice_differently", several(
        ("a", tensor("U8", "[16]")), ("a", a)), "a name twice, first as another dtype"
    yield "tensor_twice_apart", several(
        ("a", a), ("a", tensor(offsets="[16,32]")), data=bytes(32)), "a name twice, side by side"
    yield "tensor_twice_escaped", file_of(
        '{"a":' + a + r',"\u0061":' + tensor(offsets="[16,32]") + "}", bytes(32)), \
        "a name twice, once as an escape"
    yield "metadata_twice", file_of('{"__metadata__":{},"__metadata__":{"x":"y"},' + SHORT[1:],
                                    bytes(16)), "__metadata__ twice"
    yield "metadata_key_twice", file_of('{"__metadata__":{"x":"y","x":"z"},' + SHORT[1:],
                                        bytes(16)), "a key of it twice"
    yield "dtype_twice", one(more=',"dtype":"I32"'), "dtype twice"
    yield "shape_twice", one(more=',"shape":[4]'), "shape twice"
    yield "offsets_twice", one(more=',"data_offsets":[0,16]'), "data_offsets twice"
    yield "no_dtype", file_of('{"a":{"shape":[4],"data_offsets":[0,16]}}', bytes(16)), "no dtype"
    yield "no_shape", file_of('{"a":{"dtype":"F32","data_offsets":[0,16]}}', bytes(16)), "no shape"
    yield "no_offsets", file_of('{"a":{"dtype":"F32","shape":[4]}}', bytes(16)), "no data_offsets"
    yield "tensor_null", file_of('{"a":null}'), "a tensor that is null"
    yield "tensor_string", file_of('{"a":"F32"}'), "a tensor that is a string"
    yield "tensor_empty", file_of('{"a":{}}'), "a tensor without anything"
    yield "tensor_array", file_of('{"a":["F32",[4],[0,16]]}', bytes(16)), "a tensor as an array"
    yield "tensor_key_escaped", file_of(SHORT.replace('"shape"', r'"\u0073hape":[4],"shape"'),
                                        bytes(16)), "shape twice, once as an escape"
    yield "nul_in_name", file_of(
        '{"a":' + tensor("U8", "[8]", "[0,8]") + r',"a\u0000b":' + tensor("U8", "[8]", "[8,16]")
        + "}", bytes(16)), "two names that are one to C"
    yield "nul_in_dtype", one(dtype=r"F32\u0000"), "a dtype that is F32 to C"
    yield "name_of_300", several(("n" * 300, a)), "a name longer than ours may be"
    yield "metadata_number", file_of('{"__metadata__":{"x":1},' + SHORT[1:], bytes(16)), \
        "__metadata__ with a number"
    yield "metadata_object", file_of('{"__metadata__":{"x":{}},' + SHORT[1:], bytes(16)), \
        "__metadata__ with an object"
    yield "metadata_array", file_of('{"__metadata__":["x"],' + SHORT[1:], bytes(16)), \
        "__metadata__ that is an array"
    yield "metadata_is_tensor", file_of('{"__metadata__":' + a + "}", bytes(16)), \
        "__metadata__ that is a tensor"


def value_attacks():
    yield "dtype_unknown", one(dtype="F31"), "an unknown dtype"
    yield "dtype_empty", one(dtype=""), "an empty dtype"
    yield "dtype_lower_case", one(dtype="f32"), "a dtype in lower case"
    yield "dtype_long", one(dtype="F32" * 1000), "a dtype of 3000 characters"
    yield "dtype_number", file_of(SHORT.replace('"F32"', "32"), bytes(16)), "a dtype as a number"
    yield "dtype_escapes", one(dtype=r"\u001b[2J\n\r"), "a dtype that clears the screen"
    yield "shape_negative", one(shape="[-2,-2]"), "negative sizes"
    yield "shape_fraction", one(shape="[2.0,2]"), "a size as 2.0"
    yield "shape_exponent", one(shape="[4e0]"), "a size as 4e0"
    yield "shape_string", one(shape='["2",2]'), "a size as a string"
    yield "shape_bool", one(shape="[true,4]"), "a size as true"
    yield "shape_number", one(shape="4"), "a shape that is a number"
    yield "shape_null", one(shape="null"), "a shape that is null"
    yield "shape_nested", one(shape="[[2,2]]"), "a shape in a shape"
    yield "shape_too_small", one(shape="[3]"), "a shape of fewer bytes"
    yield "shape_too_large", one(shape="[2,3]"), "a shape of more bytes"
    yield "shape_zero", one(shape="[0]"), "no element in 16 bytes"
    yield "shape_wraps_elems", one(shape="[4294967296,4294967296]", offsets="[0,0]"), \
        "2^64 elements, 0 to a careless product"
    yield "shape_wraps_to_4", one(shape="[9223372036854775810,2]"), "4 elements to uint64"
    yield "shape_wraps_bytes", one(shape="[4611686018427387908]"), "16 bytes to uint64"
    yield "shape_wraps_int64", one(dtype="U8", shape="[18446744073709551600]", offsets="[16,0]"), \
        "-16 bytes to int64"
    yield "shape_beyond_uint64", one(shape="[18446744073709551620]"), "4 to a careless reader"
    yield "shape_1e400", one(shape="[1e400]"), "a size of 1e400"
    yield "shape_of_9", one(shape="[1,1,1,1,1,1,1,2,2]"), "9 dimensions"
    yield "shape_of_100000", one(shape="[" + "1," * 99999 + "4]"), "100000 dimensions"
    yield "f4_half_byte", one(dtype="F4", shape="[3]", offsets="[0,1]"), "one and a half bytes"


def offset_attacks():
    yield "begin_after_end", one(offsets="[16,0]"), "begins behind its end"
    yield "end_out_of_file", one(shape="[2,4]", offsets="[0,32]"), "ends behind the file"
    yield "out_of_file", one(offsets="[16,32]"), "lies behind the file"
    yield "far_out_of_file", one(offsets="[4611686018427387904,4611686018427387920]"), \
        "far behind it"
    yield "offsets_negative", one(offsets="[-16,0]"), "lies in the header"
    yield "offsets_uint64", one(offsets="[18446744073709551600,18446744073709551616]"), \
        "offsets at the end of uint64"
    yield "offsets_wrap", one(offsets="[18446744073709551600,0]"), "16 bytes in uint64"
    yield "offsets_int64", one(offsets="[9223372036854775807,9223372036854775823]"), \
        "overflows behind the header"
    yield "offsets_fraction", one(offsets="[0.0,16.0]"), "offsets with a point"
    yield "offsets_string", one(offsets='["0","16"]'), "offsets as strings"
    yield "offsets_bool", one(dtype="U8", shape="[1]", offsets="[false,true]"), "as false and true"
    yield "offsets_one", one(offsets="[16]"), "one offset"
    yield "offsets_three", one(offsets="[0,16,32]"), "three offsets"
    yield "offsets_null", one(offsets="null"), "null"
    yield "offsets_object", one(offsets='{"0":0,"1":16}'), "an object"
    u8 = lambda begin, end: tensor("U8", f"[{end - begin}]", f"[{begin},{end}]")
    yield "overlap", several(("a", u8(0, 12)), ("b", u8(8, 16))), "two tensors overlap"
    yield "same_bytes", several(("a", u8(0, 16)), ("b", u8(0, 16))), "two have the same bytes"
    yield "contained", several(("a", u8(0, 16)), ("b", u8(4, 8))), "one lies in the other"
    yield "empty_within", several(("a", u8(0, 16)), ("b", u8(8, 8))), \
        "one without elements lies in the other"
    yield "amplified", several(*((f"t{i}", u8(0, 16)) for i in range(20_000))), \
        "20000 tensors of the same bytes"
    yield "gap_before", several(("a", u8(4, 16))), "a gap before the first"
    yield "gap_between", several(("a", u8(0, 4)), ("b", u8(8, 16))), "a gap between two"
    yield "gap_of_one", several(("a", u8(0, 7)), ("b", u8(8, 16))), "a gap of one byte"
    yield "trailing_data", several(("a", u8(0, 8))), "bytes behind the last"
    yield "trailing_byte", several(("a", u8(0, 15))), "one byte behind the last"
    yield "data_without_tensors", file_of("{}", bytes(16)), "data and no tensor"
    yield "data_missing", file_of(SHORT), "no data"
    yield "data_cut", file_of(SHORT, bytes(15)), "a byte too few"
    yield "names_that_clear", several(("a", u8(0, 12)), (r"\u001b[2J\n\r", u8(8, 16))), \
        "a name that clears the screen, in an overlap"


def sound_files():
    """Odd ones that any reader must take: a reader that refuses everything passes no test."""
    yield "sound", file_of(SHORT, bytes(16)), "nothing odd"
    yield "sound_padded", file_of(SHORT + " " * (4096 - 8 - len(SHORT)), bytes(16)), \
        "padded with spaces"
    yield "sound_metadata", file_of('{"__metadata__":{"format":"pt","x":"\\u00e9\\n"},'
                                    + SHORT[1:], bytes(16)), "metadata"
    yield "sound_no_tensors", file_of("{}"), "no tensor"
    yield "sound_scalar", one(shape="[]", offsets="[0,4]")[:-12], "a number without dimensions"
    yield "sound_empty", several(("a", tensor(shape="[0,7]", offsets="[0,0]")), ("b", tensor())), \
        "a tensor without elements"
    yield "sound_order", several(("a", tensor("U8", "[8]", "[8,16]")),
                                 ("b", tensor("U8", "[8]", "[0,8]"))), "not in order"
    yield "sound_unaligned", several(("a", tensor("U8", "[1]", "[0,1]")),
                                     ("b", tensor("F32", "[2]", "[1,9]")), data=bytes(9)), \
        "numbers at odd offsets"
    yield "sound_bool", several(("a", tensor("BOOL", "[16]"))), "a dtype of no model's numbers"
    yield "sound_unicode", several(("\u00e9\u4e2d", tensor())), "a name in UTF-8"
    yield "sound_many", many(20_000), "20000 tensors"


def all_files():
    for attacks in (length_attacks, text_attacks, polyglots, key_attacks, value_attacks,
                    offset_attacks):
        for name, content, what in attacks():
            yield name, "refuse", content, what
    for name, content, what in sound_files():
        yield name, "accept", content, what


def package_says(path):
    """Opens the file and reads every tensor."""
    import safetensors
    try:
        with safetensors.safe_open(path, framework="pt") as opened:
            for name in opened.keys():
                opened.get_tensor(name)
    except Exception as error:  # whatever: it did not take the file
        print(f"{path.stem}: {type(error).__name__}: {str(error)[:120]!r}")
        return "refuse"
    return "accept"


def main():
    parser = argparse.ArgumentParser(description="writes files that attack safetensors readers")
    parser.add_argument("--record", action="store_true", help="rewrite the list")
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, ours, content, what in all_files():
        path = arguments.folder / f"{name}.safetensors"
        with open(path, "wb") as out:
            out.write(content.data if isinstance(content, Sparse) else content)
            if isinstance(content, Sparse):
                out.truncate(content.size)
        package = package_says(path) if arguments.record else None
        rows.append((name, ours, package, what))
    assert len({row[0] for row in rows}) == len(rows)
    if arguments.record:
        LIST.write_text("".join(" ".join(row) + "\n" for row in rows))
        return
    listed = [line.split(" ", 3) for line in LIST.read_text().splitlines()]
    if [(n, o, w) for n, o, _, w in listed] != [(n, o, w) for n, o, _, w in rows]:
        sys.exit(f"{LIST} is about other files; run with --record")


if __name__ == "__main__":
    main()
