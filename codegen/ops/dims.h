// What the guards of a graph say of its dims.
#pragma once

#include "codegen/graph/graph.h"

namespace reprise::ops {

class InferContext;

/// Works out Graph::equal_dims, once the guards are complete. The functions below need it to be
/// fast; what adds a guard drops it.
void resolve_guards(graph::Graph& g);
/// The expression without the symbols that guards have replaced by others.
Expr current(const graph::Graph& g, const Expr& e);
/// Whether a guard for equal dims says what a symbol or an operation is, so that learn() can
/// replace it.
bool determines(const graph::Graph& g, const Expr& a, const Expr& b);
/// Uses a guard that is about to be added on everything inferred so far, so that equal dims have
/// equal expressions. True when the guard itself has become superfluous.
bool learn(graph::Graph& g, const Expr& a, const Expr& b);
/// Broadcast dims that have become simpler since; to be called after learn().
void settle_broadcasts(graph::Graph& g);

/// Equal as expressions, or by guards.
bool same_size(const graph::Graph& g, const Expr& a, const Expr& b);
/// Whether a dim is 1 or `to` in every run, by what broadcasts the guards say there are.
bool broadcasts_to(const graph::Graph& g, const Expr& from, const Expr& to);

/// InferContext::broadcast_to() for whole shapes; `what` is named in the message.
Status broadcast_shape(const InferContext& ctx, const Shape& from, const Shape& to,
                       const std::string& what);

/// The position in a dim that is broadcast to another one.
Expr broadcast_position(const graph::Graph& g, const Expr& at, const Expr& from, const Expr& to);

}  // namespace reprise::ops
