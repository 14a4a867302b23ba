sw_fuzzer(fuzz_plan LIBRARIES sw_plan sw_programs)
