# What is installed, by component:
#   runtime   libreprise, which runs packages: needs zstd and xxhash; and libreprise_extras, which it opens
#             for packages with operators that few models need
#   compiler  libreprise_compiler, which compiles models: needs protobuf as well
#   images    libreprise_images, which decodes images for models with ImageDecoder
#   dev       headers, links for the linker, static libraries, a CMake package and pkg-config files
#   tools     the programs
# Targets of the CMake package:
#   reprise::reprise, reprise::compiler                the shared libraries, or else the static ones
#   reprise::reprise_static, reprise::compiler_static  the static libraries
#   reprise::extras_static                             what libreprise_extras has; the compiler brings it
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

add_library(reprise_static INTERFACE)
add_library(reprise::reprise_static ALIAS reprise_static)
target_link_libraries(reprise_static INTERFACE reprise_backends)
target_include_directories(reprise_static INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_definitions(reprise_static INTERFACE REPRISE_STATIC)
add_library(reprise_extras_static INTERFACE)
add_library(reprise::extras_static ALIAS reprise_extras_static)
set_target_properties(reprise_extras_static PROPERTIES EXPORT_NAME extras_static)
target_link_libraries(reprise_extras_static INTERFACE reprise_static reprise_extras)
if(REPRISE_COMPILER)
  add_library(reprise_compiler_static INTERFACE)
  add_library(reprise::compiler_static ALIAS reprise_compiler_static)
  set_target_properties(reprise_compiler_static PROPERTIES EXPORT_NAME compiler_static)
  target_link_libraries(reprise_compiler_static INTERFACE reprise_static reprise_codegen)
endif()

if(REPRISE_SHARED)
  include(reprise_shared)
  add_library(reprise::reprise ALIAS reprise_so)
  if(REPRISE_COMPILER)
    add_library(reprise::compiler ALIAS reprise_compiler_so)
  endif()
else()
  add_library(reprise::reprise ALIAS reprise_static)
  if(REPRISE_COMPILER)
    add_library(reprise::compiler ALIAS reprise_compiler_static)
  endif()
endif()
if(NOT REPRISE_INSTALL)
  return()
endif()

set(reprise_cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/reprise)
if(REPRISE_SHARED)
  install(TARGETS reprise_so EXPORT repriseTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
          RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  if(TARGET reprise_extras_so)
    install(TARGETS reprise_extras_so LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
            RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  endif()
  set(modules reprise)
  if(REPRISE_COMPILER)
    install(TARGETS reprise_compiler_so EXPORT repriseCompilerTargets
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT compiler NAMELINK_COMPONENT dev
            RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT compiler
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
    list(APPEND modules reprise-compiler)
  endif()
  install(EXPORT repriseTargets NAMESPACE reprise:: DESTINATION ${reprise_cmake_dir} COMPONENT dev)
  if(REPRISE_COMPILER)
    install(EXPORT repriseCompilerTargets NAMESPACE reprise:: DESTINATION ${reprise_cmake_dir} COMPONENT dev)
  endif()
  # Relative, so that the tree may be moved.
  file(RELATIVE_PATH reprise_pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" reprise_pc_to_prefix "${reprise_pc_to_prefix}")
  foreach(module ${modules})
    configure_file(${PROJECT_SOURCE_DIR}/cmake/${module}.pc.in ${PROJECT_BINARY_DIR}/${module}.pc @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/${module}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
  endforeach()
endif()

install(TARGETS reprise_static reprise_extras_static reprise_extras reprise_backends reprise_runtime reprise_base
        EXPORT repriseStaticTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(EXPORT repriseStaticTargets NAMESPACE reprise:: DESTINATION ${reprise_cmake_dir} COMPONENT dev)
if(REPRISE_COMPILER)
  install(TARGETS reprise_compiler_static reprise_codegen reprise_onnx reprise_graph reprise_shaders
                  reprise_emit reprise_interpreter reprise_kernel EXPORT repriseCompilerStaticTargets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  install(EXPORT repriseCompilerStaticTargets NAMESPACE reprise:: DESTINATION ${reprise_cmake_dir}
          COMPONENT dev)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/reprise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT dev)

# reprise_installed_file(RESULT NAME): where a shared library of ours is, below the prefix.
function(reprise_installed_file result name)
  if(WIN32)
    set(${result} ${CMAKE_INSTALL_BINDIR}/${name}.dll PARENT_SCOPE)
  elseif(APPLE)
    set(${result} ${CMAKE_INSTALL_LIBDIR}/lib${name}.${reprise_soversion}.dylib PARENT_SCOPE)
  else()
    set(${result} ${CMAKE_INSTALL_LIBDIR}/lib${name}.so.${reprise_soversion} PARENT_SCOPE)
  endif()
endfunction()
reprise_installed_file(reprise_installed_runtime reprise)
reprise_installed_file(reprise_installed_compiler reprise_compiler)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/repriseConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/repriseConfig.cmake
                              INSTALL_DESTINATION ${reprise_cmake_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/repriseConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/repriseConfig.cmake
              ${PROJECT_BINARY_DIR}/repriseConfigVersion.cmake
        DESTINATION ${reprise_cmake_dir} COMPONENT dev)

if(TARGET reprise_images)
  install(TARGETS reprise_images LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT images)
endif()

foreach(program reprise_cli reprise_filetype reprise_finetune reprise_live reprise_ocr reprise_say
                reprise_transcribe reprise_vad)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools)
  endif()
endforeach()
if(TARGET reprise_live)
  install(FILES ${PROJECT_SOURCE_DIR}/apps/live/upscale.onnx DESTINATION ${CMAKE_INSTALL_DATADIR}/reprise
          COMPONENT tools)
endif()
