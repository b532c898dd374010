// The compiler: a model in, a package out. Thread-safe. It uses as many threads as
// CompileOptions::threads allows, and they end before a call returns. Only programs include this
// header; the parts of the compiler take its context (compile_context.h) or its options.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/options/compile_options.h"
#include "codegen/options/compile_report.h"
#include "runtime/package/package.h"

namespace reprise {

Result<package::Package> compile(std::unique_ptr<graph::Graph> model, const CompileOptions& options,
                                 CompileReport* report = nullptr);
Result<package::Package> compile_file(const std::string& path, const CompileOptions& options,
                                      CompileReport* report = nullptr);
/// Compiles the part of a model that is supported. `report.refusals` lists everything that is not;
/// only if it is empty does the package compute what the model does. The package is empty if
/// nothing is left to compile.
Result<package::Package> compile_supported(const std::string& path, const CompileOptions& options,
                                           CompileReport& report);
/// Restricts the options to this device, which must not be the host.
void compile_for(const DeviceInfo& device, CompileOptions& options);
/// Parses "fp32", "fp16" or "bf16"; other names are Code::Usage.
Result<DType> parse_precision(std::string_view name);
std::string precision_name(DType precision);
/// The names that --disable-pass takes, in the order of the pipeline.
std::vector<std::string> pass_names();

}  // namespace reprise
