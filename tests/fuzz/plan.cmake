sw_fuzzer(fuzz_plan LIBRARIES sw_plan)
