# Android on arm64, from API level 26 on, with the NDK that ANDROID_NDK or the environment's
# ANDROID_NDK_HOME names (version 25 or later, for C++20). tools/cross android gets the libraries.
if(NOT ANDROID_NDK)
  set(ANDROID_NDK $ENV{ANDROID_NDK_HOME})
endif()
if(NOT EXISTS ${ANDROID_NDK}/build/cmake/android.toolchain.cmake)
  message(FATAL_ERROR "'${ANDROID_NDK}' is not an Android NDK; set ANDROID_NDK_HOME")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES REPRISE_CROSS_PREFIX ANDROID_NDK)
if(NOT ANDROID_ABI)
  set(ANDROID_ABI arm64-v8a)
endif()
set(ANDROID_PLATFORM android-26)
set(ANDROID_STL c++_static)
list(APPEND CMAKE_FIND_ROOT_PATH ${REPRISE_CROSS_PREFIX})
include(${ANDROID_NDK}/build/cmake/android.toolchain.cmake)
# Libraries of the building machine are not those of the target.
set(ENV{PKG_CONFIG_LIBDIR} ${REPRISE_CROSS_PREFIX}/lib/pkgconfig)
