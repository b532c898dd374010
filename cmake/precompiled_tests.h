// Precompiled once for all test programs (reprise_precompile_tests in reprise_options.cmake).
#pragma once

#include <gtest/gtest.h>

#include "cmake/precompiled.h"
