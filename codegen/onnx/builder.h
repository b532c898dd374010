// Builds the graph IR from the parsed file: scopes, nodes, model-local functions and bodies.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>

#include "codegen/onnx/attributes.h"
#include "codegen/onnx/importer.h"
#include "codegen/onnx/order.h"

namespace reprise::onnx {

using graph::Graph;
using graph::kNone;
using graph::ValueId;

/// The context of the nodes of the model's graph, or of one call of a function.
struct Frame {
  std::map<std::string, int64_t> opsets;
  /// Attributes of the call by name, defaults included; null for the model's graph.
  const std::map<std::string, const wire::Attribute*>* attributes = nullptr;
  std::string prefix;                        // of names: "call/"
  std::vector<const wire::Function*> calls;  // the functions being inlined, outermost first

  /// The version of the default domain; 0 if it is not imported.
  int64_t default_opset() const {
    const auto at = opsets.find("");
    return at == opsets.end() ? 0 : at->second;
  }
};

/// The names that a list of nodes sees.
struct Scope {
  Graph* graph = nullptr;
  Scope* outer = nullptr;  // of a body: the scope in which other names are looked up
  const Frame* frame = nullptr;
  std::unordered_map<std::string, ValueId> names;
  std::unordered_map<std::string, const wire::ValueInfo*> declared;
  std::unordered_map<std::string, std::string> renamed;  // function outputs: the caller's names
  struct Capture {
    ValueId outer, inner;
  };
  std::vector<Capture> captures;
  const wire::Graph* source = nullptr;  // of a graph's own scope: what it is imported from
};

/// An If whose branches give values of different ranks. Nodes that read its results become part of
/// both branches, until no node needs a value whose rank only a run knows.
struct Fork {
  graph::NodeSpec node;  // the If, with its condition only
  std::string text, advice;
  struct Branch {
    std::shared_ptr<Graph> body;
    Status invalid;  // why it cannot run; its body is not imported any further then
    std::vector<Scope::Capture> captures;
    std::map<ValueId, ValueId> inner;  // values of the graph, in the body
  };
  std::array<Branch, 2> branches;
  std::set<ValueId> results;  // values of the graph that the branches compute
  bool changed = true;        // since it was last checked whether the fork may end
};

class Builder {
 public:
  /// `file` names the model in messages; empty for a model in memory.
  Builder(const std::shared_ptr<const wire::Model>& model, ExternalData external, std::string file,
          const ImportOptions& options)
      : made_(std::make_shared<Made>(model)),
        model_(made_, model.get()),
        external_(std::move(external)),
        file_(std::move(file)),
        options_(options) {}
  Result<std::unique_ptr<Graph>> run();

 private:
  // builder.cpp
  Status read_header();
  Status add_initialisers(Scope& scope, const wire::Graph& g);
  Status add_constant(Scope& scope, const std::string& name, HostTensor t);
  /// Makes an initialiser the initial value of an input, which it adds if there is none.
  Status add_state(Scope& scope, const std::string& name, HostTensor t);
  Status define(Scope& scope, const std::string& name, ValueId v);
  Status add_declared(Scope& scope, const wire::Graph& g);
  Status set_outputs(Scope& scope, const wire::Graph& g);
  /// The value of a name, captured from an outer scope if necessary. kNone for a function's input
  /// that the call omits. Nothing if the name is not defined.
  std::optional<ValueId> resolve(Scope& scope, const std::string& name);
  /// A declared dtype that differs is an error; dims that differ are noted once for each value.
  Status check_declared(const Scope& scope, const std::string& name, ValueId v,
                        const std::string& by);
  /// Adds a note unless it was added before.
  void note(std::string text);
  /// The first notes, and the number of the others.
  std::vector<std::string> take_notes();

  // nodes.cpp
  Status add_nodes(Scope& scope, const NodeList& nodes);
  Status add_node(Scope& scope, const wire::Node& n);
  Status add_operator(Scope& scope, const wire::Node& n, const std::string& domain);
  Status add_constant_node(Scope& scope, const wire::Node& n);
  Result<std::vector<ValueId>> inputs_of(Scope& scope, const wire::Node& n);
  Status set_attributes(Scope& scope, const wire::Node& n, graph::NodeSpec& node);
  Status check_outputs(Scope& scope, const wire::Node& n, const graph::Node& node);
  /// The attribute, or the attribute of the call that it refers to. Null if the call omits it.
  Result<const wire::Attribute*> actual(const Scope& scope, const wire::Attribute& a);
  Status unknown_operator(const Scope& scope, const wire::Node& n, const std::string& domain);
  void collect_unknown(const NodeList& nodes, std::set<std::string>& out) const;

  // refusals.cpp: with ImportOptions::refusals, nodes that are refused are left out.
  bool keeps_on() const { return options_.refusals != nullptr && trials_ == 0; }
  /// Lists the refusal of a node and leaves the node out: removes the nodes of its graph that
  /// follow `last`. Returns the error if the import cannot go on.
  Status refuse(Scope& scope, const wire::Node& n, const Status& why, const graph::Node* last);
  /// Lists the refusal of an input or initialiser, whose value has no type then.
  Status refuse_value(Scope& scope, const std::string& name, const Status& why);
  Status refuse_model(const Status& why);
  void add_refusal(Refusal refusal);
  bool reads_refused(Scope& scope, const wire::Node& n);
  /// Leaves out a node that reads what others lack. Its operator and its bodies are checked.
  Status omit(Scope& scope, const wire::Node& n);
  Status omit_body(Scope& scope, const wire::Graph& body);
  void omit_outputs(Scope& scope, const wire::Node& n);
  /// A graph input of the type that the model declares for a value. kNone if it declares none.
  ValueId declared_input(Scope& scope, const std::string& name);
  /// Leaves out the node whose body does not define all of its outputs, which was listed before.
  Status omit_if_untyped(const Graph& g, const std::vector<ValueId>& values);
  /// Makes every value that no node reads an output.
  void keep_what_is_left(Graph& g);

  // functions.cpp
  const wire::Function* function_of(const wire::Node& n, const std::string& domain) const;
  Status inline_function(Scope& scope, const wire::Node& n, const wire::Function& f);
  Result<std::map<std::string, const wire::Attribute*>> bind_attributes(const Scope& scope,
                                                                        const wire::Node& n,
                                                                        const wire::Function& f);

  // control_flow.cpp
  using Branches = std::array<const wire::Graph*, 2>;  // taken if true, and if false
  Status add_if(Scope& scope, const wire::Node& n);
  /// Imports the bodies of an If in these scopes. If one of them is invalid, its body only fails.
  Status import_branches(Scope& scope, const wire::Node& n, const Branches& branches,
                         graph::NodeSpec& node, std::array<Scope, 2>& scopes);
  /// If the condition is that two dims are equal, adds a guard for it and returns true.
  bool assume_equality(Scope& scope, const wire::Node& n, graph::ValueId condition);
  /// What to do so that the condition of an If is known.
  std::string advice_for(const Scope& scope, graph::ValueId condition) const;
  Status inline_branch(Scope& scope, const wire::Node& n, const wire::Graph& body);

  // invalid_branches.cpp: a branch whose types do not fit fails when a run takes it.
  /// Whether the last error came from inference, so that it is one of the branch alone.
  bool is_fault_of_types(const Status& s) const;
  /// Imports a body of an If without listing refusals.
  Result<std::shared_ptr<Graph>> try_branch(Scope& scope, const wire::Graph& body, Scope& inner);
  /// A body that fails with this error. Its results have the types of these values of `other`.
  Result<std::shared_ptr<Graph>> failing_body(const Graph& outer, const Graph& other,
                                              const std::vector<ValueId>& results,
                                              const Status& why);

  // forks.cpp
  Fork* fork_of(const Graph& g);
  Status start_fork(Scope& scope, const wire::Node& n, graph::NodeSpec node,
                    std::array<Scope, 2>& scopes);
  /// Whether the node reads what the branches of a fork compute.
  bool reads_fork(Scope& scope, const wire::Node& n, const Fork& fork);
  Status add_to_fork(Fork& fork, Scope& scope, const wire::Node& n);
  /// The node's results in one branch. None if the branch is invalid, perhaps from this node on.
  Result<std::vector<ValueId>> add_to_branch(Fork& fork, size_t b, Scope& scope,
                                             const wire::Node& n);
  /// Ends the fork if none of the nodes that are still to come needs a rank that is unknown.
  Status end_fork_after(Scope& scope, const NodeList& nodes, std::span<const int> rest);
  /// Ends the fork of the scope's graph, if there is one. Its results that have these names become
  /// results of the If.
  Status end_fork(Scope& scope, const std::unordered_set<std::string>& names);
  Status end_fork(Graph& g, const std::vector<ValueId>& exports);
  /// Makes these values of `g` the results of a branch.
  Status end_branch(Graph& g, Fork::Branch& branch, const std::vector<ValueId>& exports);
  /// The same in a branch, whose results need not depend on the fork.
  Status end_fork_within(Graph& g, const std::vector<ValueId>& results);
  /// Forgets the fork of a graph that is given up.
  void drop_fork(const Graph& g);
  /// Nothing if the rank depends on the branch that a run takes.
  std::optional<size_t> rank_of(const Graph& g, ValueId v);

  // body.cpp
  /// The values that an operator passes to a body, by the type that they have in each iteration.
  struct BodyInput {
    DType dtype;
    Shape shape;
    graph::Items items = {};
  };
  /// Imports a body as a graph of its own. `scope` receives what it captures.
  Result<std::shared_ptr<Graph>> import_body(Scope& outer, const wire::Graph& body,
                                             const std::vector<BodyInput>& inputs, Scope& scope);
  Status fill_body(const wire::Graph& body, const std::vector<BodyInput>& inputs, Scope& scope);

  /// Adds a node of one operand and one result, of the newest version.
  static Result<ValueId> add_simple(Graph& g, const char* op, ValueId operand,
                                    const std::string& result);

  /// loops.cpp: Loop and Scan.
  friend class LoopBuilder;
  Status add_loop(Scope& scope, const wire::Node& n);

  Status add_sequence_map(Scope& scope, const wire::Node& n);

  // flex_attention.cpp
  Status add_flex_attention(Scope& scope, const wire::Node& n);
  /// Writes the nodes of a body with one input, which is `v`, and returns its output.
  Result<ValueId> apply_body(Scope& scope, const wire::Node& n, const wire::Graph& body, ValueId v);
  Result<std::map<std::string, const wire::Attribute*>> attributes_of(const Scope& scope,
                                                                      const wire::Node& n);

  std::string where() const { return file_.empty() ? "the model" : file_; }
  std::string name_in(const Scope& scope, const std::string& name) const;

  /// The nodes that the importer made. They live as long as the model, to which tensors refer.
  struct Made : std::vector<std::unique_ptr<wire::Node>> {
    explicit Made(std::shared_ptr<const wire::Model> of) : model(std::move(of)) {}
    std::shared_ptr<const wire::Model> model;
  };
  std::shared_ptr<Made> made_;
  std::shared_ptr<const wire::Model> model_;  // owns made_ as well
  ExternalData external_;
  std::string file_;
  const ImportOptions& options_;
  std::map<std::string, const wire::Function*> functions_;
  int64_t inlined_ = 0;  // nodes of inlined functions and of bodies, including nested ones
  std::vector<std::string> notes_;
  std::set<std::string> noted_;         // the same
  std::set<std::string> redeclared_;    // values with a note about their declared dims
  std::set<std::string> refused_;       // the refusals that are listed
  bool listed_before_ = false;          // the error that is returned only follows from a refusal
  std::map<const Graph*, Fork> forks_;  // those that have not ended, by graph
  /// What the branches of such forks know of their graphs, by body.
  std::map<const Graph*, Fork::Branch*> branches_;
  int trials_ = 0;                     // branches that are being imported without listing refusals
  bool types_failed_ = false;          // since the last branch was begun
  std::map<const Graph*, int> lists_;  // how many lists of nodes are being added to a graph
  /// While an error passes through calls of functions: the calls, innermost first.
  std::vector<std::string> failed_calls_;
};

/// Inlining may grow exponentially: ten levels of ten calls each are 10^10 nodes. Loops in loops
/// are imported twice at each level.
inline constexpr int64_t kMaxInlined = 100'000;

/// flex_attention.cpp: whether the importer rewrites the node.
bool is_flex_attention(const wire::Node& n, const std::string& domain);
/// sequence_map.cpp: likewise.
bool is_sequence_map(const wire::Node& n, const std::string& domain);

/// forks.cpp: the names of a graph's outputs.
std::unordered_set<std::string> output_names(const wire::Graph& g);

/// conditions.cpp: the value of a condition that the compiler knows.
std::optional<bool> known_condition(const Graph& g, ValueId condition);
/// body.cpp: makes the outer values that the node's bodies capture its last inputs. Every body gets
/// a value of its own for each of them. `scopes` are those of the bodies.
void join_captures(graph::NodeSpec& node, std::span<const Scope> scopes);
/// Appends the symbols that only `from` has. One of the graphs is a body of the other, and both
/// have had the same symbols so far.
void share_symbols(const Graph& from, Graph& to);
/// What is known, outside of a body of `g`, of the items of a value of the body.
graph::Items items_outside(const Graph& g, graph::Items items);
/// control_flow.cpp: makes a value the result of an If whose branches give these values. Dims that
/// differ depend on data. `what` names the result; `advice` says how to make the condition known.
Status merge_types(Graph& g, ValueId out, const std::array<const graph::Value*, 2>& given,
                   const std::string& what, const std::string& advice);

/// "domain" as the registry spells it: the default domain is "".
std::string canonical_domain(const std::string& domain);
Result<std::map<std::string, int64_t>> read_opsets(
    const google::protobuf::RepeatedPtrField<wire::OpsetImport>& imports);

/// Whether a value is typed. Results of nodes that were left out are not.
inline bool is_typed(const graph::Value& v) {
  return v.has_shape && v.dtype != DType::Invalid;
}

/// inputs.cpp: the tensor of an input whose elements are known.
Result<HostTensor> known_value(const graph::Value& v, const std::vector<int64_t>& values);
/// inputs.cpp: makes the model's inputs without initialisers graph inputs. Dynamic dims become
/// symbols, unless the options fix them. With ImportOptions::refusals, inputs that are refused are
/// added to `refused`.
Status add_inputs(Graph& g, const wire::Graph& model, const ImportOptions& options,
                  std::vector<std::string>& refused);

}  // namespace reprise::onnx
