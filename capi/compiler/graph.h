// The handle of a graph that is being built.
#pragma once

#include <memory>
#include <optional>

#include "capi/handles/handles.h"
#include "codegen/builder/graph_builder.h"
#include "reprise/compiler.h"

struct reprise_graph {
  std::unique_ptr<reprise::builder::GraphBuilder> builder;
  std::optional<reprise::builder::BuiltGraph> built;  // once it was compiled

  /// Ends the graph, unless an earlier call has.
  reprise::Status finish();
};

namespace reprise::capi {
template <>
inline constexpr std::string_view kHandleName<reprise_graph> = "graph";
}  // namespace reprise::capi
