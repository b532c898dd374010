# The fuzzer of graphs: a library that its tests share, and the program that tools/fuzz runs.
if(NOT TARGET reprise_cuda_shim)
  message(STATUS "the fuzzer needs tests/cuda_shim: it is not built")
  return()
endif()
add_library(reprise_test_kernels STATIC support/kernel_runner.cpp)
target_link_libraries(reprise_test_kernels PUBLIC reprise_codegen reprise_cuda_shim PRIVATE reprise_warnings)
file(GLOB fuzz_sources CONFIGURE_DEPENDS fuzz/lib/*.cpp)
add_library(reprise_fuzz_graphs STATIC ${fuzz_sources})
reprise_compile_fast(reprise_fuzz_graphs)
target_link_libraries(reprise_fuzz_graphs
  PUBLIC reprise_codegen reprise_backends reprise_test_kernels reprise_test_rebuild reprise_test_support
  PRIVATE reprise_warnings)
add_executable(reprise_fuzz fuzz/main/main.cpp)
target_link_libraries(reprise_fuzz PRIVATE reprise_fuzz_graphs Threads::Threads reprise_warnings)
reprise_keep_libraries(reprise_fuzz)
set(deps_fuzz reprise_fuzz_graphs)
set(deps_agreement reprise_codegen reprise_backends reprise_test_kernels)
set(needs_fuzz reprise_fuzz)
