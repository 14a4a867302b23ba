# The CUDA device's tests: on a GPU where there is one (else skipped), and the same kernels on the CPU
# through tests/support/cuda_emulator.h, which needs CUDA's headers and a C++ compiler, no GPU.
if(NOT TARGET sw_device_cuda OR NOT TARGET sw_runner)
  return()
endif()
sw_test(test_cuda_ops SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_ops.c
        LIBRARIES sw_device_cuda sw_device_cpu)
set(sw_meshes ${CMAKE_SOURCE_DIR}/tests/property/test_cuda_meshes.c
              ${CMAKE_SOURCE_DIR}/tests/support/harness.c)
sw_test(test_cuda_meshes SOURCES ${sw_meshes}
        LIBRARIES sw_runner sw_device_cuda sw_device_cpu sw_collective pthread)
foreach(test test_cuda_ops test_cuda_meshes)
  if(TEST ${test})
    set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
  endif()
endforeach()

find_program(SW_CXX NAMES g++ clang++ c++)
mark_as_advanced(SW_CXX)
# Sanitizers do not follow the emulator's coroutines, which switch stacks on one thread.
if(NOT SW_CXX OR NOT SW_CMOCKA OR SW_SANITIZE)
  return()
endif()
get_property(kernels GLOBAL PROPERTY SW_CUDA_KERNELS)
get_property(headers GLOBAL PROPERTY SW_CUDA_HEADERS)
get_property(sources GLOBAL PROPERTY SW_CUDA_SOURCES)
get_property(include GLOBAL PROPERTY SW_CUDA_INCLUDE)
set(emulator ${CMAKE_SOURCE_DIR}/tests/support/cuda_emulator)
set(flags -std=c++17 -O2 -g -I${CMAKE_SOURCE_DIR} -isystem ${include})
set(runtime ${CMAKE_CURRENT_BINARY_DIR}/cuda_emulator.o)
add_custom_command(OUTPUT ${runtime}
  COMMAND ${SW_CXX} ${flags} -Wall -Wextra -c ${emulator}.cpp -o ${runtime}
  DEPENDS ${emulator}.cpp ${emulator}.h COMMENT "Building the CUDA emulator" VERBATIM)
# Blocks of 256 threads, as on a GPU; of 64, faster to emulate.
foreach(threads 256 64)
  set(objects_${threads} ${runtime})
  foreach(kernel ${kernels})
    get_filename_component(name ${kernel} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/emulated_${name}_${threads}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${SW_CXX} ${flags} -Wall -Wextra -Wno-unknown-pragmas -DSW_KERNEL_THREADS=${threads}
              -include ${emulator}.h -x c++ -c ${kernel} -o ${object}
      DEPENDS ${kernel} ${headers} ${emulator}.h COMMENT "Building ${name} for the emulator"
      VERBATIM)
    list(APPEND objects_${threads} ${object})
  endforeach()
endforeach()
add_library(sw_device_cuda_emulated STATIC ${sources})
target_include_directories(sw_device_cuda_emulated SYSTEM PRIVATE ${include})
target_link_libraries(sw_device_cuda_emulated PUBLIC sw_program sw_sharding sw_error m)
sw_test(test_cuda_ops_emulated SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_ops.c ${objects_256}
        LIBRARIES sw_device_cuda_emulated sw_device_cpu stdc++)
# one mesh of each variant and dtype
sw_test(test_cuda_meshes_emulated SOURCES ${sw_meshes} ${objects_64}
        LIBRARIES sw_runner sw_device_cuda_emulated sw_device_cpu sw_collective pthread stdc++
        ARGS 2 35)
foreach(test test_cuda_ops_emulated test_cuda_meshes_emulated)
  # link order: the device's own objects call the emulator's
  set_property(TARGET ${test} PROPERTY LINK_FLAGS "-Wl,--start-group")
  set_tests_properties(${test} PROPERTIES TIMEOUT 240)
endforeach()
