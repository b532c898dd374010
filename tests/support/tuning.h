// What tests of measured schedules begin with.
#pragma once

#include <string>
#include <vector>

#include "apps/common/autotune.h"
#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"

namespace reprise::test {

/// A model of one product, which has several schedules.
inline void write_product(const std::string& path) {
  OnnxWriter w;
  w.input("x", DType::F32, {24, 40}).output("y", DType::F32, {24, 72});
  w.initializer("w", float_tensor({40, 72}));
  w.node("MatMul", {"x", "w"}, {"y"});
  write_file(path, w.bytes());
}

/// Few candidates, random inputs.
inline app::AutotuneOptions short_tuning(int rounds) {
  app::AutotuneOptions options;
  options.candidates = 3;
  options.rounds = rounds;
  options.inputs = [](const app::Model& m) {
    std::vector<std::string> notes;
    return app::make_inputs(m.package->io, {}, notes);
  };
  return options;
}

}  // namespace reprise::test
