if(TARGET sw_collective)
  sw_test(test_collective SOURCES test_collective.c collective_reference.c
          LIBRARIES sw_collective)
  sw_test_properties(test_collective PROPERTIES TIMEOUT 400 LABELS threads)
endif()
