// What tests of measured schedules begin with.
#pragma once

#include <string>
#include <vector>

#include "apps/common/inputs.h"
#include "codegen/autotune/autotune.h"
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
inline AutotuneOptions short_tuning(int rounds) {
  AutotuneOptions options;
  options.candidates = 3;
  options.rounds = rounds;
  options.inputs = [](const package::Package& p) -> Result<std::vector<HostTensor>> {
    std::vector<std::string> notes;
    RP_ASSIGN(app::InputSet set, app::make_inputs(p.io, {}, notes));
    return std::move(set.tensors);
  };
  return options;
}

}  // namespace reprise::test
