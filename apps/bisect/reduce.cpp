#include "apps/bisect/reduce.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "apps/common/files.h"
#include "codegen/onnx/importer.h"
#include "runtime/base/timing.h"
#include "runtime/platform/path.h"

namespace reprise::app {

namespace {

using graph::kNone;
using graph::Node;
using graph::ValueId;
using Picks = std::set<size_t>;  // positions of nodes

// Integer tensors of up to this many elements may be sizes, axes or indices, which the compiler
// needs to know.
constexpr int64_t kMaxSizes = 64;
constexpr int kWidenings = 3;

class Reducer {
 public:
  Reducer(const graph::Graph& model, const Values& values, const Setting& setting,
          const ReduceOptions& options)
      : g_(model), values_(values), setting_(setting), options_(options) {
    for (const auto& n : g_.nodes()) nodes_.push_back(n.get());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      position_[nodes_[i]] = i;
      for (const ValueId v : nodes_[i]->outputs) {
        if (v != kNone) producer_[v] = i;
      }
    }
    find_constants();
  }

  Result<std::optional<Reduced>> run(const std::vector<std::string>& suspects) {
    Picks last;
    for (const Picks& picks : beginnings(suspects)) {
      if (picks.empty() || picks == last) continue;
      last = picks;
      report_progress("a part of " + std::to_string(picks.size()) + " nodes");
      for (const Form form : {Form{true, true}, Form{true, false}, Form{false, true}}) {
        form_ = form;
        if (differs(picks)) return shrink(picks);
        if (out_of_time()) return std::optional<Reduced>();
      }
    }
    return std::optional<Reduced>();
  }

 private:
  /// How a part is cut from the model.
  struct Form {
    bool fixed_sizes = true;  // dims are those of this run; otherwise the model's symbols
    bool known_sizes = true;  // short integer tensors that enter the part become constants
  };

  void find_constants() {
    for (const Node* n : nodes_) {
      const bool known = std::all_of(n->inputs.begin(), n->inputs.end(), [&](ValueId v) {
        return v == kNone || g_.value(v).constant || constant_.count(v) > 0;
      });
      if (known && !n->inputs.empty()) constant_.insert(n->outputs.begin(), n->outputs.end());
    }
    constant_.erase(kNone);
  }

  /// The parts to begin with: the suspects, the suspects with their producers and consumers, the
  /// suspects with everything that they need, and the whole model.
  std::vector<Picks> beginnings(const std::vector<std::string>& suspects) const {
    const std::set<std::string> names(suspects.begin(), suspects.end());
    std::vector<Picks> out(1);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (names.count(nodes_[i]->name) > 0) out[0].insert(i);
    }
    if (out[0].empty()) out.pop_back();
    for (int w = 0; w < kWidenings && !out.empty(); ++w) out.push_back(widened(out.back()));
    if (!out.empty()) out.push_back(ancestors(out[0]));
    Picks all;
    for (size_t i = 0; i < nodes_.size(); ++i) all.insert(i);
    out.push_back(std::move(all));
    return out;
  }

  Picks widened(const Picks& picks) const {
    Picks out = picks;
    for (const size_t i : picks) {
      for (const ValueId v : nodes_[i]->inputs) {
        const auto p = producer_.find(v);
        if (p != producer_.end()) out.insert(p->second);
      }
      for (const ValueId v : nodes_[i]->outputs) {
        if (v == kNone) continue;
        for (const Node* u : g_.users(v)) out.insert(position_.at(u));
      }
    }
    return out;
  }

  Picks ancestors(const Picks& picks) const {
    Picks out = picks;
    std::vector<size_t> open(picks.begin(), picks.end());
    while (!open.empty()) {
      const size_t i = open.back();
      open.pop_back();
      for (const ValueId v : nodes_[i]->inputs) {
        const auto p = producer_.find(v);
        if (p != producer_.end() && out.insert(p->second).second) open.push_back(p->second);
      }
    }
    return out;
  }

  onnx::Part part_of(const Picks& picks) const {
    onnx::Part part;
    std::set<const Node*> inside;
    for (const size_t i : picks) {
      part.nodes.push_back(nodes_[i]);
      inside.insert(nodes_[i]);
    }
    std::set<ValueId> seen;
    for (const Node* n : part.nodes) {
      for (const ValueId v : n->inputs) {
        if (v == kNone || g_.value(v).constant || !seen.insert(v).second) continue;
        if (g_.value(v).producer != nullptr && inside.count(g_.value(v).producer) > 0) continue;
        if (is_known(v)) {
          part.constants.emplace(v, values_.at(v));
        } else {
          part.inputs.push_back(v);
        }
      }
    }
    for (const Node* n : part.nodes) {
      for (const ValueId v : n->outputs) {
        if (v == kNone) continue;
        const std::vector<Node*>& users = g_.users(v);
        const bool outside = std::any_of(users.begin(), users.end(),
                                         [&](const Node* u) { return inside.count(u) == 0; });
        if (outside || users.empty() || g_.is_output(v)) part.outputs.push_back(v);
      }
    }
    if (form_.fixed_sizes) {
      for (const auto* list : {&part.inputs, &part.outputs}) {
        for (const ValueId v : *list) part.dims[v] = values_.at(v).dims();
      }
    }
    return part;
  }

  bool is_known(ValueId v) const {
    if (constant_.count(v) > 0) return true;
    const HostTensor& t = values_.at(v);
    return form_.known_sizes && is_int(t.dtype()) && t.rank() <= 1 && t.count() <= kMaxSizes &&
           g_.value(v).producer != nullptr;
  }

  Result<Reduced> try_part(const Picks& picks) const {
    const onnx::Part part = part_of(picks);
    Reduced out;
    RP_ASSIGN(out.onnx, onnx::export_part(g_, part));
    RP_ASSIGN(auto model, onnx::import_bytes(std::as_bytes(std::span(out.onnx))));
    InputSet inputs;
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      inputs.names.push_back(model->value(model->inputs[i]).name);
      inputs.tensors.push_back(values_.at(part.inputs[i]));
    }
    RP_ASSIGN(out.sample, make_sample(std::move(model), std::move(inputs)));
    out.trial = try_sample(out.sample, setting_);
    for (const Node* n : part.nodes) {
      out.nodes.push_back(n->name);
      out.operators.push_back(n->op);
    }
    return out;
  }

  /// A part that is not a valid model, or whose run fails, counts as not differing.
  bool differs(const Picks& picks) {
    if (picks.empty()) return false;
    const auto known = outcomes_.find(picks);
    if (known != outcomes_.end() && known->second.first == key()) return known->second.second;
    Result<Reduced> tried = try_part(picks);
    const bool is = tried.ok() && tried->trial.differs;
    outcomes_[picks] = {key(), is};
    if (is) best_ = std::move(*tried);
    return is;
  }
  int key() const { return (form_.fixed_sizes ? 1 : 0) + (form_.known_sizes ? 2 : 0); }

  /// Delta debugging: leaves out shorter and shorter sequences of nodes as long as the rest
  /// differs.
  Result<std::optional<Reduced>> shrink(Picks picks) {
    for (size_t length = std::max<size_t>(picks.size() / 2, 1); !out_of_time();) {
      const bool changed = leave_out(picks, length);
      if (length == 1 && !changed) break;
      length = (length + 1) / 2;
    }
    return std::optional<Reduced>(std::move(best_));
  }

  /// Tries once to leave out each sequence of `length` nodes. Returns false if all are needed.
  bool leave_out(Picks& picks, size_t length) {
    bool changed = false;
    for (size_t begin = 0; begin < picks.size() && picks.size() > 1 && !out_of_time();) {
      Picks fewer;
      size_t i = 0;
      for (const size_t p : picks) {
        if (i < begin || i >= begin + length) fewer.insert(p);
        ++i;
      }
      report_progress("the smallest part that differs has at most " + std::to_string(picks.size()) +
                      " nodes");
      if (differs(fewer)) {
        picks = std::move(fewer);
        changed = true;
      } else {
        begin += length;
      }
    }
    return changed;
  }

  bool out_of_time() const { return now_ms() - start_ > options_.seconds * 1000; }
  void report_progress(const std::string& line) const {
    if (options_.progress) options_.progress(line);
  }

  const graph::Graph& g_;
  const Values& values_;
  const Setting& setting_;
  const ReduceOptions& options_;
  std::vector<const Node*> nodes_;
  std::map<ValueId, size_t> producer_;
  std::map<const Node*, size_t> position_;
  std::set<ValueId> constant_;  // values that depend only on constants
  Form form_;
  std::map<Picks, std::pair<int, bool>> outcomes_;
  Reduced best_;  // the last part that differed
  double start_ = now_ms();
};

}  // namespace

Result<std::optional<Reduced>> reduce(const graph::Graph& model, const Values& values,
                                      const std::vector<std::string>& suspects,
                                      const Setting& setting, const ReduceOptions& options) {
  return Reducer(model, values, setting, options).run(suspects);
}

Status write_case(const Reduced& reduced, const std::string& dir) {
  namespace fs = std::filesystem;
  const fs::path data = utf8_path(dir) / "test_data_set_0";
  std::error_code error;
  fs::create_directories(data, error);
  if (error) return {Code::Io, "cannot create '" + utf8_text(data) + "': " + error.message()};
  RP_TRY(write_file(utf8_text(utf8_path(dir) / "model.onnx"), reduced.onnx));
  const Sample& s = reduced.sample;
  for (size_t i = 0; i < s.inputs.tensors.size(); ++i) {
    RP_TRY(write_file(utf8_text(data / ("input_" + std::to_string(i) + ".pb")),
                      onnx::tensor_file(s.inputs.tensors[i], s.inputs.names[i])));
  }
  for (size_t i = 0; i < s.expected.size(); ++i) {
    RP_TRY(write_file(utf8_text(data / ("output_" + std::to_string(i) + ".pb")),
                      onnx::tensor_file(s.expected[i], s.model->output_name(i))));
  }
  return {};
}

}  // namespace reprise::app
