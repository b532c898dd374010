// Precompiled once for all test programs (reprise_test_program in tests/CMakeLists.txt).
#pragma once

#include <gtest/gtest.h>

#include "cmake/precompiled.h"
