# Other systems, which tools/cross builds for, and the same programs on this one.
add_subdirectory(platforms)
add_test(NAME platforms
         COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${CMAKE_BINARY_DIR} -DSOURCE_DIR=${PROJECT_SOURCE_DIR}
                 -DWORK_DIR=${CMAKE_CURRENT_BINARY_DIR}/platforms-work -DONNX_SUITE=${REPRISE_ONNX_SUITE} -P ${CMAKE_CURRENT_SOURCE_DIR}/platforms/run.cmake)
set_tests_properties(platforms PROPERTIES LABELS quick TIMEOUT 300 ENVIRONMENT "${test_environment}")
foreach(target windows arm64 musl macos-arm64 macos-x86_64)
  add_test(NAME platforms_${target} COMMAND ${PROJECT_SOURCE_DIR}/tools/cross --skip ${target})
  # They use the same packages, and each builds on all processors.
  set_tests_properties(platforms_${target} PROPERTIES LABELS full TIMEOUT 7200 SKIP_RETURN_CODE 77
                       RESOURCE_LOCK reprise_cross RUN_SERIAL ON)
endforeach()
