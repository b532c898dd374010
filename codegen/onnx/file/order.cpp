#include "codegen/onnx/file/order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>
#include <unordered_set>

namespace reprise::onnx {

namespace {

using Names = std::unordered_set<std::string>;

/// Adds the names that a body reads but does not define.
void free_names(const wire::Graph& g, Names& out) {
  Names defined, read;
  for (const auto& v : g.input()) defined.insert(v.name());
  for (const auto& t : g.initializer()) defined.insert(t.name());
  for (const auto& t : g.sparse_initializer()) defined.insert(t.values().name());
  for (const auto& n : g.node()) {
    read.insert(n.input().begin(), n.input().end());
    defined.insert(n.output().begin(), n.output().end());
    for (const auto& a : n.attribute()) {
      if (a.has_g()) free_names(a.g(), read);
    }
  }
  for (const auto& v : g.output()) read.insert(v.name());
  for (const std::string& name : read) {
    if (!defined.contains(name)) out.insert(name);
  }
}

using Edges = std::vector<std::vector<int>>;

/// Walks from nodes that could not be ordered to their producers, and returns a node on a cycle.
int on_cycle(const std::vector<std::vector<int>>& producers, const std::vector<int>& waiting) {
  const auto blocked = [&](int n) { return waiting[static_cast<size_t>(n)] > 0; };
  int at = 0;
  while (!blocked(at)) ++at;
  std::vector<bool> seen(waiting.size());
  while (!seen[static_cast<size_t>(at)]) {
    seen[static_cast<size_t>(at)] = true;
    for (int p : producers[static_cast<size_t>(at)]) {
      if (!blocked(p)) continue;
      at = p;
      break;
    }
  }
  return at;
}

}  // namespace

std::unordered_set<std::string> names_read(const wire::Node& n) {
  Names names(n.input().begin(), n.input().end());
  for (const auto& a : n.attribute()) {
    if (a.has_g()) free_names(a.g(), names);
  }
  names.erase("");
  return names;
}

std::string name_of_node(const wire::Node& n) {
  if (!n.name().empty()) return n.name();
  return n.op_type() + "(" + (n.output_size() > 0 ? n.output(0) : "") + ")";
}

std::string node_text(const wire::Node& n) {
  if (!n.name().empty()) return "node " + shown(n.name()) + " (" + n.op_type().substr(0, 200) + ")";
  std::string output;
  for (const std::string& o : n.output()) {
    if (output.empty()) output = o;
  }
  return "node " + shown(n.op_type() + "(" + output + ")") + " (" + n.op_type().substr(0, 200) +
         ")";
}

Result<std::vector<int>> topological_order(const NodeList& nodes) {
  std::unordered_map<std::string, int> producer;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& o : nodes[i].output()) {
      if (o.empty()) continue;
      auto [it, fresh] = producer.emplace(o, i);
      if (!fresh) {
        return invalid_model("value " + shown(o) + " is produced twice, by " +
                             node_text(nodes[it->second]) + " and " + node_text(nodes[i]));
      }
    }
  }
  const auto count = static_cast<size_t>(nodes.size());
  Edges users(count), producers(count);
  std::vector<int> waiting(count);  // producers not yet ordered
  for (int i = 0; i < nodes.size(); ++i) {
    for (const std::string& name : names_read(nodes[i])) {
      auto it = producer.find(name);
      if (it == producer.end()) continue;
      users[static_cast<size_t>(it->second)].push_back(i);
      producers[static_cast<size_t>(i)].push_back(it->second);
      ++waiting[static_cast<size_t>(i)];
    }
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i) {
    if (waiting[static_cast<size_t>(i)] == 0) ready.push(i);
  }
  std::vector<int> order;
  order.reserve(count);
  while (!ready.empty()) {
    const int n = ready.top();
    ready.pop();
    order.push_back(n);
    for (int user : users[static_cast<size_t>(n)]) {
      if (--waiting[static_cast<size_t>(user)] == 0) ready.push(user);
    }
  }
  if (order.size() == count) return order;
  // A hash set has no defined order, but the message must be deterministic.
  for (auto& p : producers) std::sort(p.begin(), p.end());
  return invalid_model(node_text(nodes[on_cycle(producers, waiting)]) +
                       " is on a cycle: it needs its own output");
}

}  // namespace reprise::onnx
