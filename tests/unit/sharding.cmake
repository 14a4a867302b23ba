sw_test(unit_mesh SOURCES test_mesh.c LIBRARIES sw_sharding)
sw_test(unit_sharding SOURCES test_sharding.c LIBRARIES sw_sharding)
sw_test(unit_reshard SOURCES test_reshard.c LIBRARIES sw_sharding)
sw_test(unit_sequence SOURCES test_sequence.c LIBRARIES sw_sharding)
