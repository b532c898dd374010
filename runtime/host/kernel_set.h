// A set of families of host kernels, and how its kernels are called.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "runtime/host/support.h"

namespace reprise::host {

using Table = std::span<const Entry>;
using TableFunction = Table (*)();

struct KernelSet {
  std::span<const TableFunction> families;
  /// So many of the last families are the only ones that take or return sequences, optionals and
  /// maps.
  size_t container_families = 0;

  /// Null if the set has no kernel of that name.
  const Entry* find(std::string_view op, bool* takes_containers = nullptr) const;
  /// Calls the kernel of Call::op, which the set has. Exceptions become errors.
  KernelResult run(const Call& c) const;
  /// Null if there is nothing to prepare, or no such kernel.
  PrepareResult prepare(const Call& c) const;
  void add_names(std::vector<std::string_view>& names) const;
};

}  // namespace reprise::host
