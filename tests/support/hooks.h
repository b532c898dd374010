// Faults that tests inject into compilations.
#pragma once

#include <memory>
#include <utility>

#include "codegen/options/compile_hooks.h"

namespace reprise::test {

template <typename F>
std::shared_ptr<const CompileHooks> graph_hook(F f) {
  return std::make_shared<CompileHooks>(CompileHooks{.graph = std::move(f), .kernel = nullptr});
}

template <typename F>
std::shared_ptr<const CompileHooks> kernel_hook(F f) {
  return std::make_shared<CompileHooks>(CompileHooks{.graph = nullptr, .kernel = std::move(f)});
}

}  // namespace reprise::test
