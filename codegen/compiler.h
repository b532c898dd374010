// A model in, a package out. Thread-safe. Creates threads as CompileOptions::threads allows; they
// end before a call returns. Only programs include this header: what the compiler is made of takes
// its context (compile_context.h) or its options.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/compile_options.h"
#include "codegen/compile_report.h"
#include "codegen/graph/graph.h"
#include "runtime/package/package.h"

namespace reprise {

Result<package::Package> compile(std::unique_ptr<graph::Graph> model, const CompileOptions& options,
                                 CompileReport* report = nullptr);
Result<package::Package> compile_file(const std::string& path, const CompileOptions& options,
                                      CompileReport* report = nullptr);
/// Makes options compile for this device alone, which is not the host.
void compile_for(const DeviceInfo& device, CompileOptions& options);
/// "fp32", "fp16" or "bf16"; others are Code::Usage.
Result<DType> parse_precision(std::string_view name);
std::string precision_name(DType precision);
/// Names that --disable-pass takes, in order.
std::vector<std::string> pass_names();

}  // namespace reprise
