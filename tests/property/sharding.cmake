sw_test(property_reshard SOURCES test_reshard.c LIBRARIES sw_sharding)
