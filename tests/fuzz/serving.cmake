pkg_check_modules(SW_JANSSON REQUIRED IMPORTED_TARGET jansson)
if(TARGET sw_serve)
  sw_fuzzer(fuzz_request LIBRARIES sw_serve PkgConfig::SW_JANSSON)
endif()
