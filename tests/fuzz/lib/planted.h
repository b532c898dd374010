// Bugs that are put into the compiler's work on purpose, to see that the fuzzer finds them.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tests/fuzz/lib/check.h"

namespace reprise::fuzz {

struct PlantedBug {
  std::string_view name;
  std::string_view what;
  Fault (*fault)();
};

std::span<const PlantedBug> planted_bugs();
/// Nothing for an unknown name.
std::optional<Fault> planted(std::string_view name);

}  // namespace reprise::fuzz
