#pragma once

#include <gtest/gtest.h>

#include "tests/ptx/ptx_text.h"

/// Skips the test where there is no NVRTC.
#define REPRISE_NEEDS_PTX()                                                                       \
  do {                                                                                            \
    if (const std::string why = ::reprise::test::why_no_ptx(); !why.empty()) GTEST_SKIP() << why; \
  } while (0)
