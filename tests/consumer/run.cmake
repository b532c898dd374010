# The consumer test; test.cmake says with which variables.
set(max_stripped_bytes 2000000)

function(run)
  cmake_parse_arguments(RUN "" "OUTPUT" "COMMAND" ${ARGN})
  execute_process(COMMAND ${RUN_COMMAND} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE err)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${RUN_COMMAND}\n${out}\n${err}")
  endif()
  if(RUN_OUTPUT)
    set(${RUN_OUTPUT} "${out}" PARENT_SCOPE)
  endif()
endfunction()

function(expect_equal what found expected)
  string(STRIP "${found}" found)
  if(NOT found STREQUAL expected)
    message(FATAL_ERROR "${what}: expected '${expected}', found '${found}'")
  endif()
endfunction()

# The very text of README.
file(READ ${SOURCE_DIR}/README.md readme)
if(NOT readme MATCHES "<!-- consumer:begin -->.*```cpp\n(.*)```.*<!-- consumer:end -->")
  message(FATAL_ERROR "README.md holds no example between its consumer markers")
endif()
set(example "${CMAKE_MATCH_1}")
string(REGEX REPLACE "\n```.*" "\n" example "${example}")
file(REMOVE_RECURSE ${WORK_DIR})
file(WRITE ${WORK_DIR}/readme.cpp "${example}")

foreach(component runtime compiler)
  run(COMMAND ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/installed
              --component ${component})
endforeach()
set(flags "")
set(keep_libraries "")
if(ASAN)
  set(flags "-fsanitize=address,undefined")
  set(keep_libraries ${SOURCE_DIR}/tests/support/keep_libraries.cpp)
endif()
run(COMMAND ${CMAKE_COMMAND} -S ${SOURCE_DIR}/tests/consumer -B ${WORK_DIR}/build
            -G ${GENERATOR}
            -DKEEP_LIBRARIES=${keep_libraries}
            -DCMAKE_PREFIX_PATH=${WORK_DIR}/installed -DREADME_SOURCE=${WORK_DIR}/readme.cpp
            -DCMAKE_BUILD_TYPE=${CONFIG} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_C_COMPILER=${CC}
            "-DCMAKE_CXX_FLAGS=${flags}" "-DCMAKE_C_FLAGS=${flags}")
run(COMMAND ${CMAKE_COMMAND} --build ${WORK_DIR}/build)

# README's program compiles and runs a model with an input x of [3,4,5].
set(model ${ONNX_SUITE}/node/test_sigmoid/model.onnx)
run(COMMAND ${WORK_DIR}/build/readme ${model} OUTPUT printed)
string(REPEAT "0.622459 " 60 expected)
string(STRIP "${expected}" expected)
expect_equal("README's example" "${printed}" "${expected}")

# A package compiled by the command line is replayed by a program without the compiler.
run(COMMAND ${BUILD_DIR}/bin/reprise compile ${model} -o ${WORK_DIR}/model.rpk)
string(REPEAT "0.731059 " 60 expected)
string(STRIP "${expected}" expected)
foreach(device host auto)
  run(COMMAND ${WORK_DIR}/build/replay ${WORK_DIR}/model.rpk ${device} OUTPUT printed)
  expect_equal("replay on ${device}" "${printed}" "${expected}")
endforeach()
file(WRITE ${WORK_DIR}/junk.rpk "junk")
execute_process(COMMAND ${WORK_DIR}/build/replay ${WORK_DIR}/junk.rpk host RESULT_VARIABLE status
                ERROR_VARIABLE printed)
if(NOT status EQUAL 1 OR NOT printed MATCHES "junk.rpk")
  message(FATAL_ERROR "a junk package: exit ${status}, '${printed}'")
endif()

# What an application ships: small, and without the compiler and its dependencies.
run(COMMAND nm -C ${WORK_DIR}/build/replay OUTPUT symbols)
foreach(forbidden google::protobuf glslang spvtools spirv_tools "reprise::kernel::Builder"
        "reprise::graph::" "reprise::emit::" "reprise::onnx::")
  string(FIND "${symbols}" "${forbidden}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "the replaying program holds ${forbidden}")
  endif()
endforeach()
run(COMMAND ldd ${WORK_DIR}/build/replay OUTPUT libraries)
if(libraries MATCHES "protobuf|glslang|SPIRV|libvulkan")
  message(FATAL_ERROR "the replaying program is linked with ${CMAKE_MATCH_0}:\n${libraries}")
endif()
if(NOT ASAN AND CONFIG MATCHES "Release|MinSizeRel")
  run(COMMAND strip -o ${WORK_DIR}/replay.stripped ${WORK_DIR}/build/replay)
  file(SIZE ${WORK_DIR}/replay.stripped size)
  message(STATUS "stripped size of a program that replays: ${size} bytes")
  if(size GREATER max_stripped_bytes)
    message(FATAL_ERROR "the replaying program has ${size} bytes stripped, over ${max_stripped_bytes}")
  endif()
endif()

# An application may link the Vulkan loader or volk as well: none of their names may be ours.
file(GLOB backends ${WORK_DIR}/installed/lib*/libreprise_backends.a
     ${WORK_DIR}/installed/lib/*/libreprise_backends.a)
run(COMMAND nm -g --defined-only ${backends} OUTPUT symbols)
if(symbols MATCHES "[\n ](vk[A-Z][A-Za-z0-9]*|volk[A-Z][A-Za-z0-9]*)\n")
  message(FATAL_ERROR "the backend defines ${CMAKE_MATCH_1}, which belongs to the Vulkan loader or volk")
endif()
