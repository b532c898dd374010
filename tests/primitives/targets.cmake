# Primitives of the CUDA emitter: a library that its tests share, and the program that records them
# for tools/gpu-check.
if(NOT TARGET reprise_cuda_shim)
  message(STATUS "primitives need tests/cuda_shim: they are not built")
  return()
endif()
file(GLOB primitive_sources CONFIGURE_DEPENDS primitives/lib/*.cpp)
add_library(reprise_primitive_cases STATIC ${primitive_sources} ptx/ptx_module.cpp ptx/ptx_text.cpp)
reprise_compile_fast(reprise_primitive_cases)
target_link_libraries(reprise_primitive_cases
  PUBLIC reprise_codegen reprise_ptx reprise_cuda_shim nlohmann_json::nlohmann_json
  PRIVATE reprise_warnings)
add_executable(reprise_record_primitives primitives/main/main.cpp)
target_link_libraries(reprise_record_primitives PRIVATE reprise_primitive_cases reprise_warnings)
set(deps_primitives reprise_primitive_cases)
