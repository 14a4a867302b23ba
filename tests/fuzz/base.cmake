sw_fuzzer(fuzz_token_index LIBRARIES sw_base)
