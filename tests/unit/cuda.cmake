# The CUDA device's tests: on a GPU where there is one (else skipped), and the same kernels on the CPU
# through tests/support/cuda_emulator.h, which needs CUDA's headers and a C++ compiler, no GPU.
if(NOT TARGET sw_device_cuda_shared OR NOT TARGET sw_runner)
  return()
endif()
sw_test(test_cuda_ops SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_ops.c
        LIBRARIES sw_device_cuda_shared sw_device_cpu)
sw_test(test_cuda_masks SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_masks.c
        LIBRARIES sw_device_cuda_shared sw_device_cpu)
sw_test(test_cuda_serving SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_serving.c
        LIBRARIES sw_device_cuda_shared sw_device_cpu)
sw_test(test_cuda_cached SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_cached.c
        LIBRARIES sw_device_cuda_shared sw_device_cpu)
sw_test(test_cuda_quantized SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_quantized.c
        LIBRARIES sw_device_cuda_shared sw_device_cpu)
set(sw_meshes ${CMAKE_SOURCE_DIR}/tests/property/test_cuda_meshes.c
              ${CMAKE_SOURCE_DIR}/tests/support/harness.c)
sw_test(test_cuda_meshes SOURCES ${sw_meshes}
        LIBRARIES sw_runner sw_device_cuda_shared sw_device_cpu sw_collective pthread)
set(sw_texts ${CMAKE_SOURCE_DIR}/tests/property/test_cuda_texts.c
             ${CMAKE_SOURCE_DIR}/tests/support/harness.c ${CMAKE_SOURCE_DIR}/tests/support/texts.c)
sw_test(test_cuda_texts SOURCES ${sw_texts}
        LIBRARIES sw_runner sw_device_cuda_shared sw_device_cpu sw_collective pthread)
sw_test(test_cudnn_attention SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cudnn_attention.c
        LIBRARIES sw_device_cuda_shared)
sw_test(test_cuda_calibrate SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_calibrate.c
        LIBRARIES sw_runner sw_device_cuda_shared)
# A kernel of the test's own.
get_property(cuda_flags GLOBAL PROPERTY SW_CUDA_FLAGS)
set(mma_kernel ${CMAKE_CURRENT_SOURCE_DIR}/mma_kernel.cu)
set(mma_headers ${CMAKE_CURRENT_SOURCE_DIR}/mma_kernel.h ${CMAKE_SOURCE_DIR}/runner/device/cuda/mma.cuh
                ${CMAKE_SOURCE_DIR}/runner/device/cuda/kernel.cuh)
add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/mma_kernel.o
  COMMAND ${SW_NVCC} ${cuda_flags} -I${CMAKE_SOURCE_DIR} -c ${mma_kernel} -o ${CMAKE_CURRENT_BINARY_DIR}/mma_kernel.o
  DEPENDS ${mma_kernel} ${mma_headers} COMMENT "nvcc mma_kernel.cu" VERBATIM)
sw_test(test_cuda_mma SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_mma.c ${CMAKE_CURRENT_BINARY_DIR}/mma_kernel.o
        LIBRARIES sw_device_cuda_shared stdc++)
foreach(test test_cuda_ops test_cuda_masks test_cuda_serving test_cuda_cached test_cuda_quantized test_cuda_mma test_cuda_meshes test_cuda_texts
             test_cudnn_attention test_cuda_calibrate)
  if(TEST ${test})
    sw_test_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
  endif()
endforeach()

get_property(cudnn GLOBAL PROPERTY SW_CUDNN_VERSION)
get_property(include GLOBAL PROPERTY SW_CUDA_INCLUDE)
foreach(test test_cuda_ops test_cuda_masks test_cuda_serving test_cuda_cached test_cuda_quantized test_cuda_mma
             test_cudnn_attention)
  if(TARGET ${test})
    target_include_directories(${test} SYSTEM PRIVATE ${include})
  endif()
endforeach()
add_test(NAME test_cuda_cli
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_cli.sh $<TARGET_FILE:plan> $<TARGET_FILE:runner>
         WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
# A GPU without kernels compiled for it ends the first step.
get_property(codes GLOBAL PROPERTY SW_CUDA_CODES)
if(SW_CUDA_ARCHITECTURES STREQUAL "AUTO")
  list(PREPEND codes 80 90)
endif()
add_test(NAME test_cuda_code
         COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_code.sh $<TARGET_FILE:runner-cuda> ${codes})
# The archive for a machine with a GPU, on a bare root folder; of the programs that are built here.
if(NOT SW_SANITIZE) # sanitizers want /proc
  add_test(NAME test_gpu_chroot
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_gpu_chroot.sh ${CMAKE_BINARY_DIR}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(test_gpu_chroot PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
endif()
# Plans for a GPU that is not here: cuDNN wants a driver that takes its compiled kernels.
if(cudnn AND NOT SW_SANITIZE)
  set(stub ${CMAKE_CURRENT_BINARY_DIR}/driver_stub)
  add_library(sw_cuda_driver_stub SHARED ${CMAKE_SOURCE_DIR}/tests/support/cuda_driver_stub.c)
  set_target_properties(sw_cuda_driver_stub PROPERTIES PREFIX "" OUTPUT_NAME libcuda SUFFIX .so.1
                                                       LIBRARY_OUTPUT_DIRECTORY ${stub})
  add_executable(test_cudnn_plans ${CMAKE_CURRENT_SOURCE_DIR}/test_cudnn_plans.c)
  target_include_directories(test_cudnn_plans SYSTEM PRIVATE ${include})
  target_link_libraries(test_cudnn_plans PRIVATE sw_device_cuda_shared)
  set_target_properties(test_cudnn_plans PROPERTIES
                        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(test_cudnn_plans sw_cuda_driver_stub)
  add_test(NAME test_cudnn_plans COMMAND test_cudnn_plans)
  sw_test_properties(test_cudnn_plans PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900
                       ENVIRONMENT "LD_LIBRARY_PATH=${stub}:$ENV{LD_LIBRARY_PATH}")
endif()

find_program(SW_CXX NAMES g++ clang++ c++)
mark_as_advanced(SW_CXX)
# Sanitizers do not follow the emulator's coroutines, which switch stacks on one thread, by x86-64's
# instructions.
if(NOT SW_CXX OR NOT SW_CMOCKA OR SW_SANITIZE OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  return()
endif()
get_property(kernels GLOBAL PROPERTY SW_CUDA_KERNELS)
get_property(headers GLOBAL PROPERTY SW_CUDA_HEADERS)
get_property(sources GLOBAL PROPERTY SW_CUDA_SOURCES)
set(emulator ${CMAKE_SOURCE_DIR}/tests/support/cuda_emulator)
set(flags -std=c++17 -O2 -g -Wall -Wextra -I${CMAKE_SOURCE_DIR} -isystem ${include})
if(SW_WERROR)
  list(APPEND flags -Werror)
endif()
set(runtime "")
foreach(part cuda_emulator cuda_streams)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${part}.o)
  set(source ${CMAKE_SOURCE_DIR}/tests/support/${part}.cpp)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${SW_CXX} ${flags} -c ${source} -o ${object}
    DEPENDS ${source} ${emulator}.h ${CMAKE_SOURCE_DIR}/tests/support/emulated_products.h
            ${CMAKE_SOURCE_DIR}/tests/support/cuda_streams.h
    COMMENT "Building ${part}" VERBATIM)
  list(APPEND runtime ${object})
endforeach()
# Blocks of 256 threads, as on a GPU; of 64, faster to emulate.
foreach(threads 256 64)
  set(objects_${threads} ${runtime})
  foreach(kernel ${kernels})
    get_filename_component(name ${kernel} NAME_WE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/emulated_${name}_${threads}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${SW_CXX} ${flags} -Wno-unknown-pragmas -DSW_KERNEL_THREADS=${threads}
              -include ${emulator}.h -x c++ -c ${kernel} -o ${object}
      DEPENDS ${kernel} ${headers} ${emulator}.h COMMENT "Building ${name} for the emulator"
      VERBATIM)
    list(APPEND objects_${threads} ${object})
  endforeach()
endforeach()
set(object ${CMAKE_CURRENT_BINARY_DIR}/emulated_mma_kernel.o)
add_custom_command(OUTPUT ${object}
  COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${SW_CXX} ${flags} -Wno-unknown-pragmas -include ${emulator}.h -x c++
          -c ${mma_kernel} -o ${object}
  DEPENDS ${mma_kernel} ${mma_headers} ${emulator}.h COMMENT "Building mma_kernel for the emulator" VERBATIM)
set(mma_objects ${objects_64} ${object})
# As without cuDNN, and with a stand-in for it.
set(cudnn_absent ${CMAKE_SOURCE_DIR}/runner/device/cuda/cudnn_absent.c)
set(cudnn_stand_in ${CMAKE_SOURCE_DIR}/tests/support/cudnn_stand_in.c)
foreach(variant absent stand_in)
  set(library sw_device_cuda_emulated_${variant})
  add_library(${library} STATIC ${sources} ${cudnn_${variant}})
  target_include_directories(${library} SYSTEM PRIVATE ${include})
  target_link_libraries(${library} PUBLIC sw_ir sw_sharding sw_base m)
endforeach()
sw_test(test_cuda_ops_emulated SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_ops.c ${objects_256}
        LIBRARIES sw_device_cuda_emulated_absent sw_device_cpu stdc++)
target_include_directories(test_cuda_ops_emulated SYSTEM PRIVATE ${include})
sw_test(test_cuda_masks_emulated SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_masks.c ${objects_64}
        LIBRARIES sw_device_cuda_emulated_absent sw_device_cpu stdc++ ARGS 2)
target_include_directories(test_cuda_masks_emulated SYSTEM PRIVATE ${include})
sw_test(test_cuda_mma_emulated SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_mma.c ${mma_objects}
        LIBRARIES sw_device_cuda_emulated_absent stdc++)
target_include_directories(test_cuda_mma_emulated SYSTEM PRIVATE ${include})
sw_test(test_cuda_serving_emulated
        SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_serving.c ${objects_256}
        LIBRARIES sw_device_cuda_emulated_absent sw_device_cpu stdc++ ARGS 1)
target_include_directories(test_cuda_serving_emulated SYSTEM PRIVATE ${include})
target_compile_definitions(test_cuda_serving_emulated PRIVATE SW_EMULATED)
sw_test(test_cuda_cached_emulated
        SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_cached.c ${objects_256}
        LIBRARIES sw_device_cuda_emulated_absent sw_device_cpu stdc++ ARGS 1)
target_include_directories(test_cuda_cached_emulated SYSTEM PRIVATE ${include})
sw_test(test_cuda_quantized_emulated
        SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_quantized.c ${objects_256}
        LIBRARIES sw_device_cuda_emulated_absent sw_device_cpu stdc++ ARGS 1)
target_include_directories(test_cuda_quantized_emulated SYSTEM PRIVATE ${include})
sw_test(test_cudnn_attention_emulated
        SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cudnn_attention.c ${objects_64}
        LIBRARIES sw_device_cuda_emulated_stand_in stdc++ ARGS 8)
target_include_directories(test_cudnn_attention_emulated SYSTEM PRIVATE ${include})
target_compile_definitions(test_cudnn_attention_emulated PRIVATE SW_EMULATED)
sw_test(test_cuda_calibrate_emulated
        SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cuda_calibrate.c ${objects_64}
        LIBRARIES sw_runner sw_device_cuda_emulated_absent stdc++)
target_compile_definitions(test_cuda_calibrate_emulated PRIVATE SW_EMULATED)
# one mesh of each variant: here fp32's, below bf16's piece by piece, and both with NCCL
sw_test(test_cuda_meshes_emulated SOURCES ${sw_meshes} ${objects_64}
        LIBRARIES sw_runner sw_device_cuda_emulated_absent sw_device_cpu sw_collective pthread
                  stdc++
        ARGS 2 35 fp32)
# bf16's attention piece by piece, on other meshes
sw_test(test_cuda_meshes_pieces_emulated SOURCES ${sw_meshes} ${objects_64}
        LIBRARIES sw_runner sw_device_cuda_emulated_stand_in sw_device_cpu sw_collective pthread
                  stdc++
        ARGS 2 31 bf16)
# saves and evaluations between steps: draws that differed, one of them as the arena lies, when
# positions were not written at every step
sw_test(test_saves_emulated
        SOURCES ${CMAKE_SOURCE_DIR}/tests/property/test_saves.c
                ${CMAKE_SOURCE_DIR}/tests/support/harness.c ${objects_64}
        LIBRARIES sw_runner sw_device_cuda_emulated_absent sw_device_cpu sw_collective pthread
                  stdc++
        ARGS 3 1 6)
target_compile_definitions(test_saves_emulated PRIVATE SW_EMULATED)
sw_test(test_cuda_texts_emulated SOURCES ${sw_texts} ${objects_64}
        LIBRARIES sw_runner sw_device_cuda_emulated_absent sw_device_cpu sw_collective pthread
                  stdc++
        ARGS 9)
set(emulated_tests test_cuda_texts_emulated)
# every rank a thread with an emulated GPU, the collectives through nccl.c and recordings
get_property(nccl_sources GLOBAL PROPERTY SW_NCCL_SOURCES)
get_property(nccl_include GLOBAL PROPERTY SW_NCCL_INCLUDE)
if(nccl_sources)
  set(stand_in ${CMAKE_CURRENT_BINARY_DIR}/nccl_stand_in.o)
  set(nccl ${CMAKE_SOURCE_DIR}/tests/support/nccl_stand_in)
  set(thread_job ${CMAKE_SOURCE_DIR}/tests/support/thread_job.c)
  add_custom_command(OUTPUT ${stand_in}
    COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${SW_CXX} ${flags} -isystem ${nccl_include} -c ${nccl}.cpp -o ${stand_in}
    DEPENDS ${nccl}.cpp ${nccl}.h ${emulator}.h ${CMAKE_SOURCE_DIR}/tests/support/cuda_streams.h COMMENT "Building the stand-in for NCCL" VERBATIM)
  add_library(sw_collective_nccl_emulated STATIC ${nccl_sources})
  target_include_directories(sw_collective_nccl_emulated SYSTEM PRIVATE ${nccl_include} ${include})
  target_link_libraries(sw_collective_nccl_emulated PUBLIC sw_collective)
  sw_test(test_cuda_meshes_nccl_emulated SOURCES ${sw_meshes} ${thread_job} ${objects_64} ${stand_in}
          LIBRARIES sw_runner sw_collective_nccl_emulated sw_device_cuda_emulated_absent
                    sw_device_cpu sw_collective pthread stdc++
          ARGS 2 97)
  target_compile_definitions(test_cuda_meshes_nccl_emulated PRIVATE SW_EMULATED_NCCL)
  if(TARGET test_cuda_meshes_nccl_emulated) # what a missing wait for an event does there
    add_test(NAME test_cuda_waits_emulated COMMAND test_cuda_meshes_nccl_emulated waits)
  endif()
  sw_test(test_cuda_texts_nccl_emulated SOURCES ${sw_texts} ${thread_job} ${objects_64} ${stand_in}
          LIBRARIES sw_runner sw_collective_nccl_emulated sw_device_cuda_emulated_absent
                    sw_device_cpu sw_collective pthread stdc++
          ARGS 7)
  target_compile_definitions(test_cuda_texts_nccl_emulated PRIVATE SW_EMULATED_NCCL)
  sw_test(test_nccl_calls_emulated
          SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_nccl_calls.c ${thread_job}
                  ${CMAKE_CURRENT_SOURCE_DIR}/collective_reference.c ${objects_64} ${stand_in}
          LIBRARIES sw_collective_nccl_emulated sw_device_cuda_emulated_absent sw_collective pthread
                    stdc++)
  foreach(test test_cuda_meshes_nccl_emulated test_cuda_texts_nccl_emulated test_nccl_calls_emulated)
    target_include_directories(${test} SYSTEM PRIVATE ${nccl_include} ${include})
  endforeach()
  list(APPEND emulated_tests test_cuda_meshes_nccl_emulated test_cuda_texts_nccl_emulated
                             test_nccl_calls_emulated)
  # what gpu.sh runs, on the emulator
  set(tools ${CMAKE_SOURCE_DIR}/tests/bench/gpu)
  add_executable(op_times_emulated ${tools}/op_times.c ${tools}/../op_table.c ${objects_64})
  target_link_libraries(op_times_emulated PRIVATE sw_runner sw_plan sw_config
                        sw_device_cuda_emulated_absent stdc++ m)
  add_executable(nccl_one_emulated ${tools}/nccl_one.c ${objects_64} ${stand_in})
  target_include_directories(nccl_one_emulated SYSTEM PRIVATE ${nccl_include} ${include})
  target_link_libraries(nccl_one_emulated PRIVATE sw_collective_nccl_emulated
                        sw_device_cuda_emulated_absent sw_collective stdc++ m)
  add_executable(ceilings_emulated ${tools}/ceilings.c ${objects_64})
  target_include_directories(ceilings_emulated SYSTEM PRIVATE ${include})
  target_link_libraries(ceilings_emulated PRIVATE sw_device_cuda_emulated_absent stdc++ m)
  add_executable(bench_cache_emulated ${tools}/bench_cache.c ${objects_64})
  target_link_libraries(bench_cache_emulated PRIVATE sw_device_cuda_emulated_absent stdc++ m)
  foreach(tool op_times_emulated nccl_one_emulated ceilings_emulated bench_cache_emulated)
    set_target_properties(${tool} PROPERTIES LINK_FLAGS "-Wl,--start-group"
                          RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  endforeach()
  set(kernel_times "") # in CUDA 13 its records have these names
  if(EXISTS ${include}/cupti_activity.h)
    file(STRINGS ${include}/cupti_activity.h sw_line REGEX "CUpti_ActivityKernel10;")
    if(sw_line)
      add_executable(kernel_times_emulated ${tools}/kernel_times.c ${CMAKE_SOURCE_DIR}/tests/support/cupti_stand_in.c)
      target_include_directories(kernel_times_emulated SYSTEM PRIVATE ${include})
      set_target_properties(kernel_times_emulated PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
      set(kernel_times $<TARGET_FILE:kernel_times_emulated>)
    endif()
  endif()
  add_test(NAME test_gpu_tools
           COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/test_gpu_tools.sh $<TARGET_FILE:plan>
                   $<TARGET_FILE:op_times_emulated> $<TARGET_FILE:nccl_one_emulated>
                   $<TARGET_FILE:ceilings_emulated> $<TARGET_FILE:bench_cache_emulated> ${kernel_times}
           WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endif()
foreach(test ${emulated_tests} test_cuda_ops_emulated test_cuda_masks_emulated test_cuda_serving_emulated test_cudnn_attention_emulated test_cuda_calibrate_emulated
             test_cuda_meshes_emulated test_cuda_meshes_pieces_emulated test_saves_emulated)
  # link order: the device's own objects call the emulator's
  set_property(TARGET ${test} PROPERTY LINK_FLAGS "-Wl,--start-group")
  sw_test_properties(${test} PROPERTIES TIMEOUT 1200)
endforeach()
