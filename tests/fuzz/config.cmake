file(GLOB sw_config_seeds ${CMAKE_SOURCE_DIR}/configs/*/*.yaml)
sw_fuzzer(fuzz_config LIBRARIES sw_plan_scheduler sw_config sw_base SEEDS ${sw_config_seeds})
