# Debian packages of the build: what they contain, and programs that are built with nothing else.
find_program(DPKG_SHLIBDEPS dpkg-shlibdeps)
if(REPRISE_SHARED AND DPKG_SHLIBDEPS)
  add_test(NAME packages
           COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${CMAKE_BINARY_DIR} -DSOURCE_DIR=${PROJECT_SOURCE_DIR}
                   -DWORK_DIR=${CMAKE_CURRENT_BINARY_DIR}/packages -DONNX_SUITE=${REPRISE_ONNX_SUITE}
                   -DCPACK=${CMAKE_CPACK_COMMAND} -DCC=${CMAKE_C_COMPILER} -DCXX=${CMAKE_CXX_COMPILER}
                   -P ${CMAKE_CURRENT_SOURCE_DIR}/packages/run.cmake)
  set_tests_properties(packages PROPERTIES LABELS quick TIMEOUT 600 ENVIRONMENT "${test_environment}")
elseif(REPRISE_SHARED)
  message(STATUS "packages are not tested: dpkg-shlibdeps (Debian's package dpkg-dev) is missing")
endif()
