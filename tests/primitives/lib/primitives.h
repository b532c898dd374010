// What the CUDA emitter writes as assembly, one kernel for each function of it: with inputs, and
// what the function might mean instead. The executor of PTX (tests/ptx) gives the results that a
// device is compared with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "codegen/kernel/ir/kernel.h"
#include "tests/emit/launch.h"

namespace reprise::test {

/// The CUDA text, prelude included, with another reading of the instruction set.
struct Reading {
  std::string name;
  std::string from, to;  // all places that are exchanged in the text
};

struct Primitive {
  std::string name;
  kernel::Kernel kernel;
  Launch launch;  // buffers that are only written come last
  size_t inputs = 0;
  size_t repeats = 1;  // launches, each of which reads what the one before wrote
  std::vector<Reading> readings = {};
  /// Only devices of sm_90a have it. The text of others has a meaning on a host as well, so that
  /// the stand-in driver can execute it.
  bool hopper = false;
};

/// All of them. Kernels are as the compiler emits them.
std::vector<Primitive> primitives();

// --- scalars.cpp, copies.cpp and products.cpp ---
void add_scalar_primitives(std::vector<Primitive>& to);
void add_copy_primitives(std::vector<Primitive>& to);
void add_product_primitives(std::vector<Primitive>& to);

/// The text with the reading; an error if it has no place for it.
Result<std::string> read_as(std::string text, const Reading& reading);

}  // namespace reprise::test
