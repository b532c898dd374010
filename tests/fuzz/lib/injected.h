// Bugs that are injected into the compiler's work, to test that the fuzzer finds them.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tests/fuzz/lib/check.h"

namespace reprise::fuzz {

struct InjectedBug {
  std::string_view name;
  std::string_view what;
  Fault (*fault)();
};

std::span<const InjectedBug> injected_bugs();
/// Nothing for an unknown name.
std::optional<Fault> injected_fault(std::string_view name);

}  // namespace reprise::fuzz
