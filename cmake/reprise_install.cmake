# What an installed tree holds: headers, static libraries, a CMake package, the programs.
#   reprise::reprise   runs packages: runtime and backends, needs threads, dl, zstd and xxhash
#   reprise::compiler  also compiles ONNX models: needs protobuf
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(reprise INTERFACE)
add_library(reprise::reprise ALIAS reprise)
target_link_libraries(reprise INTERFACE reprise_backends)
target_include_directories(reprise INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
add_library(reprise_compiler INTERFACE)
add_library(reprise::compiler ALIAS reprise_compiler)
set_target_properties(reprise_compiler PROPERTIES EXPORT_NAME compiler)
target_link_libraries(reprise_compiler INTERFACE reprise reprise_codegen)

set(reprise_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/reprise)
install(TARGETS reprise reprise_backends reprise_runtime reprise_base EXPORT repriseTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
install(TARGETS reprise_compiler reprise_codegen reprise_onnx reprise_graph reprise_shaders
                reprise_emit reprise_interpreter reprise_kernel EXPORT repriseCompilerTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler)
install(EXPORT repriseTargets NAMESPACE reprise:: DESTINATION ${reprise_cmake_dir}
        COMPONENT runtime)
install(EXPORT repriseCompilerTargets NAMESPACE reprise:: DESTINATION ${reprise_cmake_dir}
        COMPONENT compiler)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/reprise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT runtime)

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/repriseConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/repriseConfig.cmake
                              INSTALL_DESTINATION ${reprise_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/repriseConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/repriseConfig.cmake
              ${PROJECT_BINARY_DIR}/repriseConfigVersion.cmake
        DESTINATION ${reprise_cmake_dir} COMPONENT runtime)

if(TARGET reprise_images)
  install(TARGETS reprise_images LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT images)
endif()

foreach(program reprise_cli reprise_filetype reprise_finetune)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
  endif()
endforeach()
