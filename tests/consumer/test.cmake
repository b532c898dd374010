# Installs the build into a scratch tree, builds the consumer against it, runs and inspects it.
include(GNUInstallDirs)
add_test(NAME consumer
         COMMAND ${CMAKE_COMMAND} -DBUILD_DIR=${CMAKE_BINARY_DIR} -DSOURCE_DIR=${PROJECT_SOURCE_DIR}
                 -DWORK_DIR=${CMAKE_CURRENT_BINARY_DIR}/consumer -DCONFIG=${CMAKE_BUILD_TYPE}
                 -DASAN=${REPRISE_ASAN} -DSHARED=${REPRISE_SHARED} -DABI=1
                 -DLIBDIR=${CMAKE_INSTALL_LIBDIR} -DONNX_SUITE=${REPRISE_ONNX_SUITE}
                 -DCXX=${CMAKE_CXX_COMPILER} -DCC=${CMAKE_C_COMPILER}
                 -DGENERATOR=${CMAKE_GENERATOR}
                 -P ${CMAKE_CURRENT_SOURCE_DIR}/consumer/run.cmake)
set_tests_properties(consumer PROPERTIES LABELS quick TIMEOUT 600
                     ENVIRONMENT "${test_environment}")
