sw_test(property_reshard SOURCES test_reshard.c LIBRARIES sw_sharding)
# Rows are drawn: the test says the factors of the op at hand.
sw_test(test_factors SOURCES test_factors.c LIBRARIES sw_programs)
if(TARGET test_factors)
  target_link_options(test_factors PRIVATE -Wl,--wrap=sw_op_factors)
endif()
