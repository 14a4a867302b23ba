sw_test(test_ops SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_ops.c
        LIBRARIES sw_device_cpu sw_program sw_sharding sw_base pthread)
