// Finds attention in a graph in core form.
#include <algorithm>
#include <limits>
#include <map>

#include "codegen/lower/launch/result_kernel.h"
#include "codegen/lower/problems/attention.h"
#include "codegen/ops/row/support.h"
#include "shaders/attention.h"

namespace reprise::lower {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::ValueId;
using kernel::ScalarOp;

namespace {

class Matcher {
 public:
  Matcher(const Graph& g, Node* second) : g_(g), second_(second) {}

  std::optional<Group> match() {
    if (!is_matmul(second_)) return std::nullopt;
    chain_.weights = second_->inputs[0];
    nodes_.push_back(second_);
    Node* div = softmax_end(chain_.weights);
    if (div == nullptr || !softmax(*div) || !scores() || !shapes_fit()) return std::nullopt;
    Group gr;
    gr.anchor = second_;
    gr.nodes = std::move(nodes_);
    gr.domain = shape(second_->outputs[0]);
    gr.attention = chain_;
    return gr;
  }

 private:
  const Shape& shape(ValueId v) const { return g_.value(v).shape; }
  Node* producer(ValueId v) const { return v == kNone ? nullptr : g_.value(v).producer; }
  bool used(ValueId v, size_t times) const {
    return !g_.is_output(v) && g_.users(v).size() == times;
  }

  static bool is_core(const Node* n, ScalarOp op) { return n != nullptr && ops::is_core(*n, op); }

  bool is_matmul(const Node* n) const {
    if (n == nullptr || !is_contraction(*n)) return false;
    if (def_of(*n)->lowering != ops::Lowering::MatMul) return false;
    return std::all_of(n->inputs.begin(), n->inputs.end(),
                       [&](ValueId v) { return is_gemm_float(g_.value(v).dtype); });
  }

  bool is_number(ValueId v, double number) const {
    const graph::Value& value = g_.value(v);
    if (!value.constant || value.constant->count() != 1 || !is_gemm_float(value.dtype)) {
      return false;
    }
    return ops::constant_numbers(value) == std::vector<double>{number};
  }

  /// Whether n is `max == -inf`. Decomposed Attention has it for the largest score of the softmax;
  /// softmax() checks that it is the same maximum.
  bool is_hidden(const Node* n) const {
    return is_core(n, ScalarOp::Equal) &&
           is_number(n->inputs[1], -std::numeric_limits<double>::infinity());
  }

  /// Walks from the left operand of the second MatMul back to the division that ends the softmax.
  /// It passes nodes that do not change a weight: casts between floats, reshapes, and a Where that
  /// replaces NaN, or the weights of a fully hidden row, by zero.
  Node* softmax_end(ValueId v) {
    size_t times = 1;
    while (used(v, times)) {
      Node* n = producer(v);
      if (n == nullptr || is_core(n, ScalarOp::Div)) return n;
      const bool same = ops::is_reshape(g_, *n) ||
                        (ops::converts(*n) && is_gemm_float(g_.value(n->inputs[0]).dtype) &&
                         is_gemm_float(g_.value(v).dtype));
      times = 1;
      if (same) {
        v = n->inputs[0];
      } else if (is_core(n, ScalarOp::Where) && is_number(n->inputs[1], 0)) {
        Node* condition = producer(n->inputs[0]);
        const bool nan =
            is_core(condition, ScalarOp::IsNaN) && condition->inputs[0] == n->inputs[2];
        if (!nan && (hidden_ != nullptr || !is_hidden(condition))) return nullptr;
        if (shape(n->inputs[2]) != shape(v)) return nullptr;
        if (nan && !used(n->inputs[0], 1)) return nullptr;
        nodes_.push_back(condition);
        if (nan) {
          chain_.zero_for_nan = true;
          times = 2;
        } else {
          chain_.zero_if_hidden = true;
          hidden_ = condition;
        }
        v = n->inputs[2];
      } else {
        return nullptr;
      }
      nodes_.push_back(n);
    }
    return nullptr;
  }

  bool reduces_last(const Node* n, ScalarOp combine) const {
    if (n == nullptr || !is_reduction(*n) || def_of(*n)->combine != combine) return false;
    const auto rank = static_cast<int64_t>(shape(n->inputs[0]).size());
    return ops::Attributes(*n).get_ints("axes") == std::vector<int64_t>{rank - 1};
  }

  /// exp(x - max(x)) / sum(exp(x - max(x))), as Softmax is decomposed.
  bool softmax(Node& div) {
    const ValueId e = div.inputs[0];
    Node* exp = producer(e);
    Node* sum = producer(div.inputs[1]);
    if (!is_core(exp, ScalarOp::Exp) || !reduces_last(sum, ScalarOp::Add) || sum->inputs[0] != e)
      return false;
    Node* sub = producer(exp->inputs[0]);
    if (!is_core(sub, ScalarOp::Sub)) return false;
    Node* max = producer(sub->inputs[1]);
    chain_.logits = sub->inputs[0];
    if (!reduces_last(max, ScalarOp::Max) || max->inputs[0] != chain_.logits) return false;
    if (hidden_ != nullptr && hidden_->inputs[0] != sub->inputs[1]) return false;
    nodes_.insert(nodes_.end(), {&div, sum, exp, sub, max});
    log_sum(div.inputs[1], sub->inputs[1]);
    return used(e, 2) && only_inside(div.inputs[1]) && used(exp->inputs[0], 1) &&
           only_inside(sub->inputs[1]) && used(chain_.logits, 2) &&
           (hidden_ == nullptr || only_inside(hidden_->outputs[0]));
  }

  /// Whether nothing else than the nodes found so far reads v.
  bool only_inside(ValueId v) const {
    return !g_.is_output(v) && std::ranges::all_of(g_.users(v), [&](const Node* u) {
      return std::ranges::find(nodes_, u) != nodes_.end();
    });
  }

  /// The only reader of v, or null.
  Node* reader(ValueId v) const { return used(v, 1) ? g_.users(v)[0] : nullptr; }

  /// Finds where(max == -inf, 0, log(sum) + max), which the backward pass of attention reads.
  void log_sum(ValueId sum, ValueId max) {
    const auto& users = g_.users(sum);
    const auto log = std::ranges::find_if(users, [](Node* u) { return is_core(u, ScalarOp::Log); });
    if (log == users.end()) return;
    Node* add = reader((*log)->outputs[0]);
    if (!is_core(add, ScalarOp::Add) || std::ranges::find(add->inputs, max) == add->inputs.end())
      return;
    Node* where = reader(add->outputs[0]);
    if (!is_core(where, ScalarOp::Where) || where->inputs[2] != add->outputs[0] ||
        !is_number(where->inputs[1], 0))
      return;
    Node* hidden = producer(where->inputs[0]);
    if (!is_hidden(hidden) || hidden->inputs[0] != max || !is_row_value(where->outputs[0])) return;
    chain_.log_sum = where->outputs[0];
    nodes_.insert(nodes_.end(), {*log, add, where});
    if (hidden != hidden_) nodes_.push_back(hidden);
  }

  /// Whether v has one element for each row of logits.
  bool is_row_value(ValueId v) const {
    const Shape& rows = shape(v);
    const Shape& logits = shape(chain_.logits);
    return rows.size() == logits.size() && rows.back().is_const(1) &&
           std::equal(rows.begin(), rows.end() - 1, logits.begin());
  }

  /// Whether v follows elementwise from the first MatMul, which is the first one that is found.
  bool follows_scores(ValueId v) {
    Node* n = producer(v);
    if (n == nullptr || element_count(shape(v)) != element_count(shape(chain_.logits)))
      return false;
    auto [it, inserted] = follows_.try_emplace(n, false);
    if (!inserted) return it->second;
    if (is_matmul(n)) {
      if (chain_.scores == nullptr) chain_.scores = n;
    } else {
      const ops::OpDef* def = def_of(*n);
      const bool elementwise = def != nullptr && ops::is_core(*n) && n->subgraphs.empty() &&
                               (def->lowering == ops::Lowering::Scalar || ops::is_reshape(g_, *n));
      bool any = false;
      for (ValueId i : n->inputs) any |= elementwise && i != kNone && follows_scores(i);
      if (!any) return false;
    }
    const bool follows = n == chain_.scores || !is_matmul(n);
    follows_[n] = follows;
    if (follows) nodes_.push_back(n);
    return follows;
  }

  /// Finds the nodes from the first MatMul to the logits. False if something else reads one of
  /// their values, or the second MatMul does.
  bool scores() {
    if (!follows_scores(chain_.logits) || chain_.scores == second_) return false;
    for (const auto& [n, follows] : follows_) {
      if (!follows) continue;
      for (ValueId v : n->outputs) {
        if (v == kNone) continue;
        if (g_.is_output(v)) return false;
        for (Node* u : g_.users(v)) {
          if (u == second_ || std::find(nodes_.begin(), nodes_.end(), u) == nodes_.end())
            return false;
        }
      }
    }
    return true;
  }

  /// Whether rows and keys are the last two dims of all values between the MatMuls, and the number
  /// of columns is one that a tile supports.
  bool shapes_fit() const {
    const Shape& out = shape(second_->outputs[0]);
    const Shape& weights = shape(chain_.weights);
    const auto same_end = [&](const Shape& s) {
      return s.size() >= 2 && std::equal(s.end() - 2, s.end(), weights.end() - 2) &&
             element_count(s) == element_count(weights);
    };
    const bool same_batch =
        weights.size() == out.size() && std::equal(weights.begin(), weights.end() - 1, out.begin());
    const Expr& columns = out.back();
    return same_batch && same_end(shape(chain_.logits)) &&
           same_end(shape(chain_.scores->outputs[0])) && columns.is_const() &&
           columns.value() > 0 && columns.value() <= shaders::kMaxAttentionColumns;
  }

  const Graph& g_;
  Node* second_;
  AttentionChain chain_;
  const Node* hidden_ = nullptr;  // the comparison that finds fully hidden rows
  std::vector<Node*> nodes_;
  std::map<const Node*, bool> follows_;
};

}  // namespace

std::optional<Group> match_attention(const Graph& g, Node* second) {
  return Matcher(g, second).match();
}

}  // namespace reprise::lower
