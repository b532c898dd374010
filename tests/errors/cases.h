// Cases of errors: what is given, the exit status of the command line, and what its message names.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "tests/support/onnx_writer.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace reprise::test {

using Args = std::vector<std::string>;

/// Files of one case, in a folder of its own.
class Workspace {
 public:
  std::string file(const std::string& name, const std::string& contents) {
    const auto path = dir_ / name;
    write_file(path, contents);
    return path;
  }
  std::string path(const std::string& name) const { return dir_ / name; }

 private:
  TempDir dir_;
};

struct Case {
  std::string name;
  int status;           // expected exit status
  std::string message;  // regex that standard error must contain
  /// Makes files and says what to run; the device option is appended where `per_device`.
  std::function<Args(Workspace&)> make;
  bool per_device = false;
};

inline OnnxWriter relu() {
  OnnxWriter w;
  w.input("x", DType::F32, {2, 3}).output("y", DType::F32, {2, 3});
  w.node("Relu", {"x"}, {"y"}, {"the_relu", "", {}});
  return w;
}

inline OnnxWriter add_dynamic() {
  OnnxWriter w;
  w.input("a", DType::F32, {"n", 3}).input("b", DType::F32, {"n", 3});
  w.output("y", DType::F32, {"n", 3});
  w.node("Add", {"a", "b"}, {"y"}, {"the_add", "", {}});
  return w;
}

inline Args run_with(const std::string& model, const Args& more = {}) {
  Args args{"run", model};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

inline void check(const Case& c, const std::string& device) {
  SCOPED_TRACE(c.name + (device.empty() ? "" : " on " + device));
  Workspace workspace;
  Args argv{program("reprise")};
  const Args args = c.make(workspace);
  argv.insert(argv.end(), args.begin(), args.end());
  if (!device.empty()) argv.insert(argv.end(), {"--device", device, "--validation"});
  const ProcessResult r = run_process(argv);
  EXPECT_EQ(r.status, c.status) << r.err;
  EXPECT_TRUE(std::regex_search(r.err, std::regex(c.message)))
      << "expected " << c.message << " in: " << r.err;
}

}  // namespace reprise::test
