/// @file
/// Reprise's compiler in C++: a thin layer over compiler.h, which documents the options.
#ifndef REPRISE_COMPILER_HPP_
#define REPRISE_COMPILER_HPP_

#include <string>

#include "reprise/compiler.h"
#include "reprise/graph.hpp"
#include "reprise/reprise.hpp"

namespace reprise {
inline namespace api {

/// Compiles the model in a file for all targets of the options; no device is needed.
inline Result<Package> compile_file(const std::string& onnx_path,
                                    const reprise_compile_options* options = nullptr) {
  reprise_error e{};
  reprise_package* p = nullptr;
  if (reprise_compile_file(onnx_path.c_str(), options, &p, &e) != REPRISE_OK) return e;
  return Package(p);
}

/// Does the same with a model in memory, in which external data is an error.
inline Result<Package> compile_memory(const void* onnx, size_t bytes,
                                      const reprise_compile_options* options = nullptr) {
  reprise_error e{};
  reprise_package* p = nullptr;
  if (reprise_compile_memory(onnx, bytes, options, &p, &e) != REPRISE_OK) return e;
  return Package(p);
}

/// Does the same with a graph that was built, which takes no more calls that add to it then.
inline Result<Package> compile_graph(const Graph& graph,
                                     const reprise_compile_options* options = nullptr) {
  reprise_error e{};
  reprise_package* p = nullptr;
  if (reprise_compile_graph(graph.get(), options, &p, &e) != REPRISE_OK) return e;
  return Package(p);
}

/// Compiles the model in a file with the schedules that are fastest on the device of `tuning`.
inline Result<Package> tune_file(const std::string& onnx_path, const reprise_tune_options& tuning,
                                 const reprise_compile_options* options = nullptr) {
  reprise_error e{};
  reprise_package* p = nullptr;
  if (reprise_tune_file(onnx_path.c_str(), options, &tuning, &p, &e) != REPRISE_OK) return e;
  return Package(p);
}

/// Does the same with a model in memory, in which external data is an error.
inline Result<Package> tune_memory(const void* onnx, size_t bytes,
                                   const reprise_tune_options& tuning,
                                   const reprise_compile_options* options = nullptr) {
  reprise_error e{};
  reprise_package* p = nullptr;
  if (reprise_tune_memory(onnx, bytes, options, &tuning, &p, &e) != REPRISE_OK) return e;
  return Package(p);
}

}  // namespace api
}  // namespace reprise

#endif
