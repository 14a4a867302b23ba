if(TARGET sw_collective)
  sw_test(test_collective SOURCES test_collective.c collective_reference.c
          LIBRARIES sw_collective)
  sw_test_properties(test_collective PROPERTIES TIMEOUT 900)
  sw_label(threads test_collective)
endif()
