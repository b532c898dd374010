/// @file
/// The builder of graphs in C++: a thin layer over graph.h, which documents it. compiler.hpp
/// includes it.
#ifndef REPRISE_GRAPH_HPP_
#define REPRISE_GRAPH_HPP_

#include <string>
#include <utility>
#include <vector>

#include "reprise/graph.h"
#include "reprise/reprise.hpp"

namespace reprise {
inline namespace api {

/// A graph that is being built. Values and bodies are numbers; sizes are texts such as "8", "n" and
/// "4*h + 1".
class Graph {
 public:
  /// Makes an empty graph; `options` may be null.
  static Result<Graph> create(const reprise_graph_options* options = nullptr) {
    reprise_error e{};
    reprise_graph* g = nullptr;
    if (reprise_graph_create(options, &g, &e) != REPRISE_OK) return e;
    return Graph(g);
  }
  /// Takes ownership of the handle.
  explicit Graph(reprise_graph* graph) : graph_(graph) {}
  /// The handle, which the graph keeps.
  reprise_graph* get() const { return graph_.get(); }

  /// Declares a size that runs decide.
  Error symbol(const std::string& name, int64_t min = 0, int64_t max = 2147483647,
               int64_t divisor = 1) {
    return outcome([&](reprise_error* e) {
      return reprise_graph_symbol(get(), name.c_str(), min, max, divisor, e);
    });
  }
  /// Refuses runs in which a relation of sizes does not hold: "==", ">=", "broadcast" or
  /// "broadcast_to".
  Error guard(const std::string& left, const std::string& relation, const std::string& right,
              const std::string& what) {
    return outcome([&](reprise_error* e) {
      return reprise_graph_guard(get(), left.c_str(), relation.c_str(), right.c_str(), what.c_str(),
                                 e);
    });
  }
  /// Adds an input, in the order of calls.
  Result<int32_t> input(const std::string& name, reprise_dtype dtype,
                        const std::vector<std::string>& dims) {
    const std::vector<const char*> texts = texts_of(dims);
    return value([&](int32_t* v, reprise_error* e) {
      return reprise_graph_input(get(), name.c_str(), dtype, texts.data(), texts.size(), v, e);
    });
  }
  /// Adds a constant, whose elements the graph copies or borrows.
  Result<int32_t> constant(const reprise_tensor& tensor, bool borrow = false) {
    return value([&](int32_t* v, reprise_error* e) {
      return reprise_graph_constant(get(), &tensor, borrow ? 1 : 0, v, e);
    });
  }
  /// Adds an input that sessions keep from run to run, with its first value.
  Result<int32_t> state(const reprise_tensor& initial) {
    return value(
        [&](int32_t* v, reprise_error* e) { return reprise_graph_state(get(), &initial, v, e); });
  }
  /// Makes a value the next one of a state, and an output of this name.
  Error next_state(int32_t state, int32_t next, const std::string& name) {
    return outcome([&](reprise_error* e) {
      return reprise_graph_next_state(get(), state, next, name.c_str(), e);
    });
  }
  /// Makes a value an output, in the order of calls.
  Error output(const std::string& name, int32_t v) {
    return outcome(
        [&](reprise_error* e) { return reprise_graph_output(get(), name.c_str(), v, e); });
  }
  /// Adds a node, and returns its outputs.
  Result<std::vector<int32_t>> node(const reprise_graph_node& node) {
    reprise_error e{};
    std::vector<int32_t> outputs(node.output_count);
    if (reprise_graph_add_node(get(), &node, outputs.data(), &e) != REPRISE_OK) return e;
    return outputs;
  }
  /// Adds a node with one output and no attributes.
  Result<int32_t> node(const std::string& op, const std::vector<int32_t>& inputs,
                       const std::string& name = {}) {
    reprise_graph_node n = REPRISE_GRAPH_NODE_INIT;
    n.op = op.c_str();
    n.name = name.c_str();
    n.inputs = inputs.data();
    n.input_count = inputs.size();
    return value(
        [&](int32_t* v, reprise_error* e) { return reprise_graph_add_node(get(), &n, v, e); });
  }
  /// Sizes as a vector of int64, or one as a scalar.
  Result<int32_t> sizes(const std::vector<std::string>& sizes, bool scalar = false) {
    const std::vector<const char*> texts = texts_of(sizes);
    return value([&](int32_t* v, reprise_error* e) {
      return reprise_graph_sizes(get(), texts.data(), texts.size(), scalar ? 1 : 0, v, e);
    });
  }
  /// Begins the body of an If, Loop or Scan, to which nodes that follow belong.
  Error begin_body(const std::string& name = {}) {
    return outcome(
        [&](reprise_error* e) { return reprise_graph_begin_body(get(), name.c_str(), e); });
  }
  /// Adds an input of the body.
  Result<int32_t> body_input(const std::string& name = {}) {
    return value([&](int32_t* v, reprise_error* e) {
      return reprise_graph_body_input(get(), name.c_str(), v, e);
    });
  }
  /// Ends the body, which returns these values.
  Result<int32_t> end_body(const std::vector<int32_t>& outputs) {
    return value([&](int32_t* v, reprise_error* e) {
      return reprise_graph_end_body(get(), outputs.data(), outputs.size(), v, e);
    });
  }
  /// The type of a value, such as "float32[n, 8]"; empty while it is not known.
  Result<std::string> type(int32_t v) const {
    reprise_error e{};
    char text[1024] = {};
    if (reprise_graph_type(get(), v, text, sizeof(text), &e) != REPRISE_OK) return e;
    return std::string(text);
  }
  /// Checks the invariants of the graph so far.
  Error verify() const {
    return outcome([&](reprise_error* e) { return reprise_graph_verify(get(), e); });
  }

 private:
  static std::vector<const char*> texts_of(const std::vector<std::string>& strings) {
    std::vector<const char*> out;
    out.reserve(strings.size());
    for (const std::string& s : strings) out.push_back(s.c_str());
    return out;
  }
  /// Calls a function that gives one number.
  template <typename F>
  static Result<int32_t> value(F&& call) {
    reprise_error e{};
    int32_t v = REPRISE_GRAPH_NONE;
    if (call(&v, &e) != REPRISE_OK) return e;
    return v;
  }

  Handle<reprise_graph, reprise_graph_free> graph_;
};

}  // namespace api
}  // namespace reprise

#endif
