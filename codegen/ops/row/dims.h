// Facts about dims that follow from the guards of a graph.
#pragma once

#include "codegen/graph/graph.h"

namespace reprise::ops {

class InferContext;

/// Computes Graph::equal_dims once all guards exist, which makes the functions below fast. Adding a
/// guard resets it.
void resolve_guards(graph::Graph& g);
/// Replaces a symbol by its value, and symbols that then have a value as well, in everything except
/// bodies. The symbols keep their places in the graph's list. Resolves the guards.
void fix_symbol(graph::Graph& g, SymbolId symbol, int64_t value);
/// Replaces the symbols in the expression that guards made equal to others.
Expr canonical(const graph::Graph& g, const Expr& e);
/// Whether a guard that makes these dims equal determines a symbol or an operation, so that
/// propagate_equality() can replace it.
bool has_rewrite_rule(const graph::Graph& g, const Expr& a, const Expr& b);
/// Applies a guard that is about to be added to everything inferred so far, so that equal dims have
/// equal expressions. Returns true if the guard itself is no longer needed.
bool propagate_equality(graph::Graph& g, const Expr& a, const Expr& b);
/// Simplifies broadcast dims after propagate_equality().
void simplify_broadcasts(graph::Graph& g);

/// Whether the dims are equal, as expressions or because of guards.
bool same_size(const graph::Graph& g, const Expr& a, const Expr& b);
/// Whether guards imply that a dim is 1 or equal to `to` in every run.
bool broadcasts_to(const graph::Graph& g, const Expr& from, const Expr& to);

/// InferContext::broadcast_to() for shapes. `what` names `from` in the message.
Status broadcast_shape(const InferContext& ctx, const Shape& from, const Shape& to,
                       const std::string& what);

/// Maps a position in the dim `to` to the position in `from`, which is broadcast to it.
Expr broadcast_position(const graph::Graph& g, const Expr& at, const Expr& from, const Expr& to);

}  // namespace reprise::ops
