// Graphs: nodes, dependencies, instances and their launches.
#include <algorithm>
#include <set>

#include "tests/cuda_standin/driver/api.h"
#include "tests/cuda_standin/driver/kernel_params.h"

using namespace reprise::cuda;
using namespace reprise::standin;

namespace reprise::standin {
namespace {

/// The indices of the nodes that a new one waits for.
CUresult dependencies(Call& call, const Graph& graph, const CUgraphNode* after, size_t n,
                      std::vector<uint32_t>& out) {
  if (n != 0 && after == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::set<uint32_t> seen;
  for (size_t i = 0; i < n; ++i) {
    const auto node = call.find<Node>(after[i]);
    if (node == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (node->graph != graph.id || !seen.insert(node->index).second) {
      call.misuse("a dependency on a node of another graph, or the same one twice");
      return CUDA_ERROR_INVALID_VALUE;
    }
    out.push_back(node->index);
  }
  return CUDA_SUCCESS;
}

/// Leaves out the edge that a test wants to miss.
void count_edges(Driver& d, const Graph& graph, const Work& work, size_t node,
                 std::vector<uint32_t>& after) {
  for (size_t i = 0; i < after.size(); ++i) {
    if (++d.edges != d.settings.drop_edge) continue;
    d.log.line("dropped: edge " + std::to_string(d.edges) + ", from " +
               graph.work[after[i]]->name() + " (node " + std::to_string(after[i]) + ") to " +
               work.name() + " (node " + std::to_string(node) + ")");
    after.erase(after.begin() + static_cast<std::ptrdiff_t>(i));
    --i;
  }
}

template <typename MakeWork>
CUresult add_node(Call& call, CUgraphNode* node, CUgraph handle, const CUgraphNode* after,
                  size_t n_after, const MakeWork& make) {
  const auto graph = call.find<Graph>(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<uint32_t> before;
  const CUresult known = dependencies(call, *graph, after, n_after, before);
  if (known != CUDA_SUCCESS) return known;
  Work work;
  const CUresult made = make(work);
  if (made != CUDA_SUCCESS) return made;
  count_edges(call.d, *graph, work, graph->work.size(), before);
  auto n = std::make_shared<Node>();
  n->graph = graph->id;
  n->index = static_cast<uint32_t>(graph->work.size());
  *node = call.add(n);
  graph->work.push_back(std::make_shared<Work>(std::move(work)));
  graph->nodes.push_back(n->id);
  graph->after.push_back(std::move(before));
  graph->programmatic.emplace_back();
  return CUDA_SUCCESS;
}

bool is_kernel(const Graph& graph, uint32_t node) {
  return std::holds_alternative<KernelWork>(graph.work[node]->what);
}

/// Whether an edge with this data may lead from one node to another; it may be programmatic.
bool may_have(const Graph& graph, const CUgraphEdgeData& data, uint32_t from, uint32_t to) {
  const auto zero = [](unsigned char byte) { return byte == 0; };
  if (data.to_port != 0 || !std::all_of(data.reserved, data.reserved + 5, zero)) return false;
  const bool programmatic = data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
  if (!programmatic) return data.type == 0 && data.from_port == 0;
  return data.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC && is_kernel(graph, from) &&
         is_kernel(graph, to);
}

CUresult add_edge(Call& call, Graph& graph, const CUgraphNode* from, const CUgraphNode* to,
                  const CUgraphEdgeData& data) {
  const auto node = call.find<Node>(*to);
  if (node == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  std::vector<uint32_t> before;
  const CUresult known = dependencies(call, graph, from, 1, before);
  if (known != CUDA_SUCCESS) return known;
  std::vector<uint32_t>& after = graph.after[node->index];
  if (node->graph != graph.id || before[0] >= node->index ||
      std::find(after.begin(), after.end(), before[0]) != after.end()) {
    call.misuse("an edge that is there already, or leads back, or to a node of another graph");
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!may_have(graph, data, before[0], node->index)) return CUDA_ERROR_INVALID_VALUE;
  count_edges(call.d, graph, *graph.work[node->index], node->index, before);
  after.insert(after.end(), before.begin(), before.end());
  if (data.type != 0) {
    std::vector<uint32_t>& early = graph.programmatic[node->index];
    early.insert(early.end(), before.begin(), before.end());
  }
  return CUDA_SUCCESS;
}

/// A copy of one row.
CUresult copy_work(Call& call, const CUDA_MEMCPY3D& p, CopyWork& out) {
  if (p.Height != 1 || p.Depth != 1 || p.WidthInBytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (p.srcY != 0 || p.srcZ != 0 || p.srcLOD != 0 || p.dstY != 0 || p.dstZ != 0 || p.dstLOD != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (p.reserved0 != nullptr || p.reserved1 != nullptr) return CUDA_ERROR_INVALID_VALUE;
  out.bytes = p.WidthInBytes;
  out.from_host = p.srcMemoryType == CU_MEMORYTYPE_HOST;
  out.to_host = p.dstMemoryType == CU_MEMORYTYPE_HOST;
  out.from = (out.from_host ? reinterpret_cast<uint64_t>(p.srcHost) : p.srcDevice) + p.srcXInBytes;
  out.to = (out.to_host ? reinterpret_cast<uint64_t>(p.dstHost) : p.dstDevice) + p.dstXInBytes;
  for (const bool to : {false, true}) {
    const uint64_t at = to ? out.to : out.from;
    const bool host = to ? out.to_host : out.from_host;
    if (at == 0) return CUDA_ERROR_INVALID_VALUE;
    if (host || call.d.memory.range(at, out.bytes) != nullptr) continue;
    call.misuse("a copy beyond one live allocation");
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

/// The place in `exec` of a node of the graph that it was made from; null after noting a misuse.
WorkPtr* work_of(Call& call, const std::shared_ptr<Exec>& exec, CUgraphNode handle) {
  const auto node = call.find<Node>(handle);
  if (exec == nullptr || node == nullptr) return nullptr;
  const auto it = exec->nodes.find(node->id);
  if (it != exec->nodes.end()) return &exec->work[it->second];
  call.misuse("the node is not of the graph that this was instantiated from");
  return nullptr;
}

/// Compilation that is still going on, and what it says.
CUresult wait_for_kernels(Call& call, const std::vector<WorkPtr>& work) {
  for (const WorkPtr& w : work) {
    const auto* k = std::get_if<KernelWork>(&w->what);
    const auto module = k == nullptr ? nullptr : k->function->module.lock();
    if (k == nullptr) continue;
    if (module == nullptr) {
      call.misuse(w->name() + " is of a module that was unloaded");
      return CUDA_ERROR_INVALID_VALUE;
    }
    call.lock.unlock();
    const reprise::Status s = module->compiled->wait();
    call.lock.lock();
    if (s.ok()) continue;
    call.d.log.line(w->name() + ": " + s.message());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace reprise::standin

REPRISE_STANDIN_API cuGraphCreate(CUgraph* graph, unsigned flags) {
  return enter(Symbol::cuGraphCreate, Needs::Context, [&](Call& call) {
    if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    *graph = call.add(std::make_shared<Graph>());
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuGraphDestroy(CUgraph graph) {
  return enter(Symbol::cuGraphDestroy, Needs::Context, [&](Call& call) {
    const auto g = call.find<Graph>(graph);
    if (g == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    for (const uint64_t node : g->nodes) call.d.handles.remove(node);
    call.d.handles.remove(g->id);
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph,
                                            const CUgraphNode* after, size_t n_after,
                                            const CUDA_KERNEL_NODE_PARAMS* params) {
  return enter(Symbol::cuGraphAddKernelNode_v2, Needs::Context, [&](Call& call) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return add_node(call, node, graph, after, n_after, [&](Work& work) {
      KernelWork k;
      const CUresult result = kernel_work(call, *params, k);
      work.what = std::move(k);
      return result;
    });
  });
}

/// Of the graph: for what is instantiated from it later.
REPRISE_STANDIN_API cuGraphKernelNodeSetParams_v2(CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS* params) {
  return enter(Symbol::cuGraphKernelNodeSetParams_v2, Needs::Context, [&](Call& call) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto n = call.find<Node>(node);
    if (n == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const auto graph = call.d.handles.find<Graph>(reinterpret_cast<CUgraph>(n->graph));
    WorkPtr& work = graph->work[n->index];
    if (!std::holds_alternative<KernelWork>(work->what)) return CUDA_ERROR_INVALID_VALUE;
    KernelWork k;
    const CUresult result = kernel_work(call, *params, k);
    if (result != CUDA_SUCCESS) return result;
    work = std::make_shared<Work>(Work{std::move(k), true});
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                        size_t n_after) {
  return enter(Symbol::cuGraphAddEmptyNode, Needs::Context, [&](Call& call) {
    return add_node(call, node, graph, after, n_after, [](Work& work) {
      work.what = EmptyWork{};
      return CUDA_SUCCESS;
    });
  });
}

REPRISE_STANDIN_API cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode* from,
                                              const CUgraphNode* to, const CUgraphEdgeData* data,
                                              size_t n) {
  return enter(Symbol::cuGraphAddDependencies_v2, Needs::Context, [&](Call& call) {
    const auto g = call.find<Graph>(graph);
    if (g == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (n != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; ++i) {
      const CUgraphEdgeData of_edge = data == nullptr ? CUgraphEdgeData{} : data[i];
      const CUresult added = add_edge(call, *g, from + i, to + i, of_edge);
      if (added != CUDA_SUCCESS) return added;
    }
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* after,
                                         size_t n_after, const CUDA_MEMCPY3D* params,
                                         CUcontext context) {
  return enter(Symbol::cuGraphAddMemcpyNode, Needs::Context, [&](Call& call) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (call.find<Context>(context) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    return add_node(call, node, graph, after, n_after, [&](Work& work) {
      CopyWork copy;
      const CUresult result = copy_work(call, *params, copy);
      work.what = copy;
      return result;
    });
  });
}

REPRISE_STANDIN_API cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph,
                                              const CUgraphNode* after, size_t n_after,
                                              CUevent event) {
  return enter(Symbol::cuGraphAddEventRecordNode, Needs::Context, [&](Call& call) {
    const auto e = call.find<Event>(event);
    if (e == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return add_node(call, node, graph, after, n_after, [&](Work& work) {
      work.what = RecordWork{e};
      return CUDA_SUCCESS;
    });
  });
}

REPRISE_STANDIN_API cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                                unsigned long long flags) {
  return enter(Symbol::cuGraphInstantiateWithFlags, Needs::Context, [&](Call& call) {
    constexpr unsigned long long kFlags = 15;
    if (exec == nullptr || (flags & ~kFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
    const auto g = call.find<Graph>(graph);
    if (g == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const CUresult compiled = wait_for_kernels(call, g->work);
    if (compiled != CUDA_SUCCESS) return compiled;
    auto e = std::make_shared<Exec>();
    e->work = g->work;
    e->after = g->after;
    e->early.resize(g->work.size());
    e->triggers.resize(g->work.size());
    for (uint32_t n = 0; n < g->programmatic.size(); ++n) {
      for (const uint32_t from : g->programmatic[n]) e->early[n] = e->triggers[from] = true;
    }
    for (uint32_t n = 0; n < g->nodes.size(); ++n) e->nodes[g->nodes[n]] = n;
    *exec = call.add(e);
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuGraphExecDestroy(CUgraphExec exec) {
  return enter(Symbol::cuGraphExecDestroy, Needs::Context, [&](Call& call) {
    const auto e = call.find<Exec>(exec);
    if (e == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    call.d.handles.remove(e->id);
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                      const CUDA_KERNEL_NODE_PARAMS* params) {
  return enter(Symbol::cuGraphExecKernelNodeSetParams_v2, Needs::Context, [&](Call& call) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto e = call.find<Exec>(exec);
    WorkPtr* const work = work_of(call, e, node);
    if (work == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (!std::holds_alternative<KernelWork>((*work)->what)) return CUDA_ERROR_INVALID_VALUE;
    KernelWork k;
    const CUresult result = kernel_work(call, *params, k);
    if (result != CUDA_SUCCESS) return result;
    *work = std::make_shared<Work>(Work{std::move(k), (*work)->enabled});
    ++e->version;
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                   const CUDA_MEMCPY3D* params, CUcontext context) {
  return enter(Symbol::cuGraphExecMemcpyNodeSetParams, Needs::Context, [&](Call& call) {
    if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (call.find<Context>(context) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    const auto e = call.find<Exec>(exec);
    WorkPtr* const work = work_of(call, e, node);
    if (work == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const auto* old = std::get_if<CopyWork>(&(*work)->what);
    if (old == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CopyWork copy;
    const CUresult result = copy_work(call, *params, copy);
    if (result != CUDA_SUCCESS) return result;
    if (copy.from_host != old->from_host || copy.to_host != old->to_host)
      return CUDA_ERROR_INVALID_VALUE;
    *work = std::make_shared<Work>(Work{copy, (*work)->enabled});
    ++e->version;
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuGraphNodeSetEnabled(CUgraphExec exec, CUgraphNode node, unsigned enabled) {
  return enter(Symbol::cuGraphNodeSetEnabled, Needs::Context, [&](Call& call) {
    const auto e = call.find<Exec>(exec);
    WorkPtr* const work = work_of(call, e, node);
    if (work == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    const auto& what = (*work)->what;
    if (!std::holds_alternative<KernelWork>(what) && !std::holds_alternative<CopyWork>(what)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if ((*work)->enabled == (enabled != 0)) return CUDA_SUCCESS;
    const uint32_t n = e->nodes[call.find<Node>(node)->id];
    if (e->early[n] || e->triggers[n]) {
      call.misuse(
          "a node that awaits others by its kernel, or whose kernel others await, is disabled");
      return CUDA_ERROR_INVALID_VALUE;
    }
    *work = std::make_shared<Work>(Work{what, enabled != 0});
    ++e->version;
    return CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return enter(Symbol::cuGraphUpload, Needs::Context, [&](Call& call) {
    const auto e = call.find<Exec>(exec);
    const auto s = call.stream(stream);
    return e == nullptr || s == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
  });
}

REPRISE_STANDIN_API cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return enter(Symbol::cuGraphLaunch, Needs::Context, [&](Call& call) {
    const auto e = call.find<Exec>(exec);
    const auto s = call.stream(stream);
    if (e == nullptr || s == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    for (const WorkPtr& w : e->work) {
      if (const auto* r = std::get_if<RecordWork>(&w->what)) r->event->queued();
    }
    Driver& d = call.d;
    auto launch =
        std::make_shared<Launch>(Launch{e, e->work, e->version, ++e->launches, d.settings});
    s->push([&d, launch, context = call.context] { run_graph(d, *context, *launch); });
    return CUDA_SUCCESS;
  });
}
