// Imports that list every refusal: a node that is refused is left out, and its results have no
// type.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "codegen/onnx/refusal.h"
#include "codegen/onnx/scope.h"

namespace reprise::onnx {

class Import;

class Refusals {
 public:
  /// `list` is ImportOptions::refusals, which may be null.
  Refusals(Import& import, std::vector<Refusal>* list) : import_(import), list_(list) {}

  /// Whether the import goes on without what it refuses.
  bool keeps_on() const { return list_ != nullptr && trials_ == 0; }
  bool empty() const { return list_ == nullptr || list_->empty(); }
  /// While one exists, refusals are errors.
  class Trial {
   public:
    explicit Trial(Refusals& refusals) : trials_(refusals.trials_) { ++trials_; }
    ~Trial() { --trials_; }
    Trial(const Trial&) = delete;
    Trial& operator=(const Trial&) = delete;

   private:
    int& trials_;
  };

  /// Lists the refusal of a node and leaves the node out: removes the nodes of its graph that
  /// follow `last`. Returns the error if the import cannot go on.
  Status refuse(Scope& scope, const wire::Node& n, const Status& why, const graph::Node* last);
  /// Lists the refusal of an input or initialiser, whose value has no type then.
  Status refuse_value(Scope& scope, const std::string& name, const Status& why);
  Status refuse_model(const Status& why);
  bool reads_refused(Scope& scope, const wire::Node& n);
  /// Leaves out a node that reads what others lack. Its operator and its bodies are checked.
  Status omit(Scope& scope, const wire::Node& n);
  /// Leaves out the node whose body does not define all of its outputs, which was listed before.
  Status omit_if_untyped(const Graph& g, const std::vector<ValueId>& values);
  /// Makes every value that no node reads an output.
  static void keep_what_is_left(Graph& g);

 private:
  void add(Refusal refusal);
  Status omit_body(Scope& scope, const wire::Graph& body);
  void omit_outputs(Scope& scope, const wire::Node& n);

  Import& import_;
  std::vector<Refusal>* list_;
  std::set<std::string> listed_;
  bool listed_before_ = false;  // the error that is returned only follows from a refusal
  int trials_ = 0;              // branches that are being imported without listing refusals
};

}  // namespace reprise::onnx
