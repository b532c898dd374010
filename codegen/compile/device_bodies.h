// The bodies of If, Loop and Scan that devices run. Each is a graph of its own, which the same
// passes, fusion and lowering compile as the model's graph.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/graph/graph.h"
#include "codegen/lower/fuse/fuse.h"
#include "codegen/options/compile_options.h"
#include "codegen/options/compile_report.h"
#include "runtime/package/package.h"

namespace reprise {

class CompileContext;

class DeviceBodies {
 public:
  /// A body after the passes.
  struct Entry {
    std::unique_ptr<graph::Graph> graph;
    CompileOptions options;
    CompileReport report;
    std::unique_ptr<CompileContext> context;
    lower::Fusion fusion;      // portable
    package::DeviceBody form;  // without plan and kernels
  };
  /// Where the bodies of a node run.
  struct Use {
    std::vector<uint32_t> bodies;  // indices of entries; empty if the bodies run on the host
    std::string reason;            // why they run there
  };

  /// Schedule sites of a body have numbers from this one on, which no site of the model has.
  static size_t first_site(size_t body) { return (body + 1) << 20; }

  DeviceBodies();
  DeviceBodies(const DeviceBodies&) = delete;
  DeviceBodies& operator=(const DeviceBodies&) = delete;
  ~DeviceBodies();

  /// Compiles the bodies of the model's graph, and the bodies in them, up to fusion. Call it after
  /// the passes.
  Status prepare(CompileContext& context);
  /// The nodes of a copy of the model's graph, after the passes, have the bodies of its nodes.
  /// Keeps the copy, so that no other node gets the address of one of its nodes.
  void share(const graph::Graph& model, std::shared_ptr<const graph::Graph> copy);
  /// Null for a node without bodies.
  const Use* of(const graph::Node& n) const;
  /// A body calls only bodies before it.
  const std::vector<std::unique_ptr<Entry>>& entries() const { return entries_; }
  /// Code::Unsupported, naming the node, if a node of the groups runs on the host.
  Status require_no_host(const lower::Fusion& fusion) const;

 private:
  Status prepare_graph(CompileContext& context);
  Result<Use> prepare_node(CompileContext& context, const graph::Node& n);
  Status add_entry(CompileContext& context, const graph::Node& n, const std::string& label,
                   const graph::Graph& body);

  CompileOptions options_;
  std::vector<std::unique_ptr<Entry>> entries_;
  /// Bodies that run on the host. They are kept so that no other node gets the address of theirs.
  std::vector<std::unique_ptr<Entry>> unused_;
  std::unordered_map<const graph::Node*, Use> uses_;
  std::vector<std::shared_ptr<const graph::Graph>> copies_;
};

}  // namespace reprise
