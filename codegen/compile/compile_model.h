// Compilation of a model that is not a file.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "codegen/options/compile_options.h"
#include "codegen/options/compile_report.h"
#include "runtime/package/package.h"

namespace reprise {

namespace builder {
struct BuiltGraph;
}  // namespace builder

/// Compiles an ONNX model in memory, in which external data is an error.
Result<package::Package> compile_bytes(std::span<const std::byte> model,
                                       const CompileOptions& options,
                                       CompileReport* report = nullptr);

/// Does the same as compile_supported() with an ONNX model in memory.
Result<package::Package> compile_supported_bytes(std::span<const std::byte> model,
                                                 const CompileOptions& options,
                                                 CompileReport& report);

/// Compiles a graph of the builder, which stays as it is. The graph says what its inputs and states
/// are: options that fix shapes, values or optional inputs of a model file are Code::Usage.
Result<package::Package> compile_built(const builder::BuiltGraph& model,
                                       const CompileOptions& options,
                                       CompileReport* report = nullptr);

/// Compiles one model with the given options: compile_file() or compile_bytes(). `report` may be
/// null.
using CompileModel =
    std::function<Result<package::Package>(const CompileOptions& options, CompileReport* report)>;

}  // namespace reprise
