if(TARGET sw_collective)
  sw_test(test_collective SOURCES test_collective.c collective_reference.c
          LIBRARIES sw_collective)
  if(TEST test_collective)
    set_tests_properties(test_collective PROPERTIES TIMEOUT 400)
  endif()
endif()
