sw_test(test_ops SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_ops.c
        LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
if(TARGET test_ops)
  # fewer threads than the device is asked for: the library left parts of products out
  add_test(NAME test_ops_limited COMMAND test_ops WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(test_ops_limited PROPERTIES ENVIRONMENT OMP_THREAD_LIMIT=1 LABELS variant)
endif()
sw_test(test_attention SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_attention.c
        LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
sw_test(test_memory SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_memory.c
        LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
sw_test(test_cache_int8 SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cache_int8.c
        LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
sw_test(test_cached_masks SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_cached_masks.c
        LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
sw_test(test_weights SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_weights.c
        LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
# Sanitizers see a third of the large products: each type and each shape, not each with each (tests/soak.sh: all).
set(sw_rows_stride 1)
if(SW_SANITIZE)
  set(sw_rows_stride 3)
endif()
sw_test(test_rows SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_rows.c
        LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread ARGS ${sw_rows_stride})
if(TARGET test_rows)
  # what oneDNN does on a processor that has no more (nothing on another one)
  add_test(NAME test_rows_avx2 COMMAND test_rows WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  sw_test_properties(test_rows_avx2 PROPERTIES ENVIRONMENT DNNL_MAX_CPU_ISA=AVX2 LABELS variant)
endif()
# tiles of the processor, where it has them, beside the emulation of them
sw_test(test_amx SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_amx.c ${CMAKE_SOURCE_DIR}/tests/support/amx_emulated.c
        LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
if(TARGET test_amx AND SW_NATIVE)
  target_compile_options(test_amx PRIVATE -march=native)
endif()
# Other instruction sets' bits are a Release build's alone: nothing runs them elsewhere, and they take half a minute to compile.
if(TARGET test_rows AND CMAKE_BUILD_TYPE STREQUAL Release AND NOT SW_SANITIZE)
  # products of a few rows as the compiler makes them without -march=native, and for AVX2: their own
  # object comes before the library's, and has no tiles whatever the processor
  set(sw_streamed ${CMAKE_SOURCE_DIR}/runner/device/cpu/streamed.c ${CMAKE_SOURCE_DIR}/runner/device/cpu/packed.c
      ${CMAKE_SOURCE_DIR}/runner/device/cpu/tiled.c ${CMAKE_SOURCE_DIR}/runner/device/cpu/tiled_int4.c
      ${CMAKE_SOURCE_DIR}/runner/device/cpu/lines.c)
  sw_test(test_rows_plain SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_rows.c ${sw_streamed}
          LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
  target_compile_definitions(test_rows_plain PRIVATE SW_WITHOUT_AMX)
  target_compile_options(test_rows_plain PRIVATE -O3 -ffp-contract=fast)
  # attention likewise
  set(sw_kernels ${CMAKE_SOURCE_DIR}/runner/device/cpu/kernels_f32.c)
  sw_test(test_attention_plain SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_attention.c ${sw_kernels}
          LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
  target_compile_options(test_attention_plain PRIVATE -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math)
  if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo sw_has_bf16 REGEX "^flags.* avx512_bf16" LIMIT_COUNT 1)
    file(STRINGS /proc/cpuinfo sw_has_avx2 REGEX "^flags.* avx2 .*fma|^flags.* fma .*avx2" LIMIT_COUNT 1)
  endif()
  if(sw_has_bf16 AND SW_NATIVE)
    # the same on a processor with tiles, which are emulated (runner/device/cpu/amx.h)
    add_library(sw_kernels_amx OBJECT ${sw_kernels} ${CMAKE_SOURCE_DIR}/runner/device/cpu/amx.c
                ${CMAKE_SOURCE_DIR}/runner/device/cpu/streamed.c ${CMAKE_SOURCE_DIR}/runner/device/cpu/tiled_amx.c)
    target_link_libraries(sw_kernels_amx PRIVATE sw_device_cpu)
    target_compile_options(sw_kernels_amx PRIVATE -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -march=native)
    target_compile_definitions(sw_kernels_amx PRIVATE SW_AMX_EMULATED)
    foreach(test attention ops rows)
      sw_test(test_${test}_amx SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_${test}.c $<TARGET_OBJECTS:sw_kernels_amx>
              LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
      target_compile_definitions(test_${test}_amx PRIVATE SW_AMX_EMULATED)
    endforeach()
  endif()
  if(sw_has_avx2)
    sw_test(test_rows_mavx2 SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_rows.c ${sw_streamed}
            LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
    target_compile_definitions(test_rows_mavx2 PRIVATE SW_WITHOUT_AMX)
    target_compile_options(test_rows_mavx2 PRIVATE -O3 -ffp-contract=fast -mavx2 -mfma -mf16c)
    sw_test(test_attention_mavx2 SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_attention.c ${sw_kernels}
            LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
    target_compile_options(test_attention_mavx2 PRIVATE -O3 -ffp-contract=fast -fno-math-errno -fno-trapping-math -mavx2 -mfma)
    # a processor for which gcc contracts some loops and not others
    sw_test(test_rows_tuned SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/test_rows.c ${sw_streamed}
            LIBRARIES sw_device_cpu sw_ir sw_sharding sw_base pthread)
    target_compile_definitions(test_rows_tuned PRIVATE SW_WITHOUT_AMX)
    target_compile_options(test_rows_tuned PRIVATE -O3 -ffp-contract=fast -mavx2 -mfma -mtune=znver2)
  endif()
endif()
