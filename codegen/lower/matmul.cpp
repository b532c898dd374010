#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "codegen/lower/contraction.h"
#include "codegen/lower/cost.h"
#include "shaders/contraction.h"

namespace reprise::lower {

using graph::ValueId;
using kernel::Builder;
using kernel::Builtin;
using kernel::Ty;
using kernel::Val;
using shaders::RegisterTile;

namespace {

// Lanes of a subgroup that share a tile of columns: each loads an eighth of B's part and takes the
// rest from its neighbours by shuffles with constant lanes, which CPU-type devices compute for next
// to nothing while each load costs them a gather.
constexpr int kSharing = 8;

struct Tile {
  int rows = 8, cols = 8;
  uint32_t workgroup = 64;
  bool share_b = false;  // one subgroup of kSharing lanes a workgroup
};

/// Estimated time of a product by tiles that a subgroup shares, in units of a multiply-add of one
/// register: a gather costs about 28 of them (measured on lavapipe, docs/architecture.md).
double sharing_cost(double m, double n, double batch, int rows, int cols) {
  constexpr double kGather = 28;
  constexpr double kEnoughTiles = 8;  // to keep a few threads busy
  const double tiles =
      batch * std::ceil(m / (rows * kSharing)) * std::ceil(n / static_cast<double>(cols));
  const double cost = tiles * (kGather * (rows + cols / 8.0) + static_cast<double>(rows) * cols);
  return tiles < kEnoughTiles ? cost * kEnoughTiles / std::max(1.0, tiles) : cost;
}

/// Pure function of the shape and the target.
Tile choose(double m, double n, double batch, const Target& target) {
  Tile t;
  t.rows = static_cast<int>(std::clamp(m, 1.0, target.cpu_type() ? 8.0 : 4.0));
  t.workgroup = target.cpu_type() ? 16 : 64;
  t.share_b = target.cpu_type() && target.predicate.needs_subgroup_shuffle &&
              target.predicate.subgroup_size == kSharing && m >= kSharing;
  if (!t.share_b) return t;
  t.workgroup = kSharing;
  double best = std::numeric_limits<double>::infinity();
  for (int cols : {32, 16, 8}) {
    for (int rows = 8; rows >= 1; --rows) {
      const double cost = sharing_cost(m, n, batch, rows, cols);
      if (cost >= best) continue;
      best = cost;
      t.rows = rows;
      t.cols = cols;
    }
  }
  return t;
}

class MatMulKernel {
 public:
  MatMulKernel(const graph::Graph& g, const Group& group, const Target& target)
      : g_(g), group_(group), target_(target), b_(kernel_name(group)), ev_(g, group, b_) {
    const Shape& d = group.domain;
    batch_.assign(d.begin(), d.end() - 2);
    m_ = d[d.size() - 2];
    n_ = d[d.size() - 1];
    a_ = group.anchor->inputs[0];
    bv_ = group.anchor->inputs[1];
    k_ = g.value(a_).shape.back();
    collapse_batch();
    tile_ = choose(count_hint(g, {m_}), count_hint(g, {n_}), count_hint(g, batch_), target);
    fma_ = !target.cpu_type();
    wide_n_ = n_.known_divisor(g.symbols) % 4 == 0;
    packed_ = constant_matrix(g, bv_);
  }

  Result<Lowered> build() {
    b_.set_workgroup(tile_.workgroup);
    const Expr n_tiles = Expr::ceildiv(n_, tile_.cols);
    const Expr m_tiles = Expr::ceildiv(m_, tile_.rows * (tile_.share_b ? kSharing : 1));
    const Expr tiles = element_count(batch_) * n_tiles * m_tiles;
    const Expr groups = tile_.share_b ? tiles : Expr::ceildiv(tiles, tile_.workgroup);
    Val id = linear_workgroup(b_, groups);
    Val inside;
    if (tile_.share_b) {
      // All lanes stay active: shuffles read from each of them.
      b_.require_subgroup_size(kSharing);
      lane_ = ev_.symbol(b_.convert(b_.builtin(Builtin::SubgroupLane), Ty::I32), kSharing);
      if (!tiles.is_const()) inside = b_.lt(id, ev_.value(tiles));
    } else {
      id = b_.add(b_.mul(id, b_.i32(tile_.workgroup)),
                  b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32));
      const bool exact = tiles.is_const() && tiles.value() % tile_.workgroup == 0;
      if (!exact) inside = b_.lt(id, ev_.value(tiles));
    }
    RP_TRY(guard(ev_, inside, [&]() -> Status {
      const Expr t = ev_.symbol(id, tiles);
      Expr m_tile = ev_.simplify(Expr::mod(t, m_tiles));
      if (tile_.share_b) m_tile = m_tile * Expr(kSharing) + lane_;
      place(m_tile, Expr::mod(Expr::floordiv(t, m_tiles), n_tiles),
            ev_.simplify(Expr::floordiv(t, m_tiles * n_tiles)));
      choose_b_direction();
      return body();
    }));
    std::string schedule =
        "register tile " + std::to_string(tile_.rows) + "x" + std::to_string(tile_.cols);
    if (packed_) schedule += " packed";
    if (along_k_) schedule += " bT";
    if (tile_.share_b) schedule += " shared by " + std::to_string(kSharing) + " lanes";
    RP_ASSIGN(Lowered out, finish(ev_, b_, group_, groups, target_, schedule));
    if (packed_) describe_packing(out);
    return out;
  }

 private:
  /// With one B for all batches, rows of all batches are rows of one product.
  void collapse_batch() {
    const Shape& a = g_.value(a_).shape;
    const Shape& b = g_.value(bv_).shape;
    for (size_t d = 0; d + 2 < b.size(); ++d) {
      if (!b[d].is_const(1)) return;
    }
    if (batch_.empty() || a.size() != group_.domain.size()) return;
    if (!std::equal(batch_.begin(), batch_.end(), a.begin())) return;
    row_shape_ = batch_;
    row_shape_.push_back(m_);
    m_ = element_count(row_shape_);
    batch_.clear();
  }

  /// Batch and row of the domain for a row of the tile.
  Index row_index(const Expr& row) {
    if (!row_shape_.empty()) return ev_.unflatten(row, row_shape_);
    Index index = batch_index_;
    index.push_back(row);
    return index;
  }

  Index a_index(const Expr& row, const Expr& k) {
    if (row_shape_.empty()) return operand(a_, row, k);
    Index index = row_index(row);
    index.push_back(k);
    return index;
  }

  /// Coordinates of the invocation's rows and columns.
  void place(const Expr& m_tile, const Expr& n_tile, const Expr& batch) {
    batch_index_ = ev_.unflatten(batch, batch_);
    n_tile_ = ev_.value(ev_.simplify(n_tile));
    const Val m0 = b_.mul(ev_.value(ev_.simplify(m_tile)), b_.i32(tile_.rows));
    const bool exact_m =
        m_.known_divisor(g_.symbols) % (tile_.rows * (tile_.share_b ? kSharing : 1)) == 0;
    for (int r = 0; r < tile_.rows; ++r) {
      rows_.push_back(clamped(ev_, b_.add(m0, b_.i32(r)), m_, exact_m));
    }
    const bool exact_n = n_.known_divisor(g_.symbols) % tile_.cols == 0;
    for (int v = 0; v < tile_.cols / 4; ++v) {
      const Val vec = b_.add(b_.mul(n_tile_, b_.i32(tile_.cols / 4)), b_.i32(v));
      if (wide_n_) {
        vecs_.push_back(clamped(ev_, vec, Expr::floordiv(n_, 4), exact_n));
        continue;
      }
      for (int l = 0; l < 4; ++l) {
        cols_.push_back(clamped(ev_, b_.add(b_.mul(vec, b_.i32(4)), b_.i32(l)), n_, false));
      }
    }
  }

  Index operand(ValueId v, const Expr& row, const Expr& col) const {
    const Shape& shape = g_.value(v).shape;
    Index index(shape.size());
    for (size_t d = 0; d + 2 < shape.size(); ++d) {
      const size_t from_end = shape.size() - 2 - d;
      index[d] = shape[d].is_const(1) ? Expr(0) : batch_index_[batch_.size() - from_end];
    }
    index[shape.size() - 2] = row;
    index[shape.size() - 1] = col;
    return index;
  }

  Result<Val> f32(Result<Val> v) {
    if (!v.ok() || b_.type(*v).ty == Ty::F32) return v;
    return b_.convert(*v, Ty::F32);
  }

  Expr column(int vec, int lane) const {
    if (wide_n_) return Expr(4) * vecs_[static_cast<size_t>(vec)].index + Expr(lane);
    return cols_[static_cast<size_t>(vec * 4 + lane)].index;
  }

  /// Four columns of B at position k.
  Result<Val> load_b(int vec, const Expr& k) {
    if (packed_) {
      const int buf = ev_.buffer(packed_->value);
      const Val at =
          b_.add(b_.mul(b_.add(b_.mul(n_tile_, ev_.value(k_)), ev_.value(k)), b_.i32(tile_.cols)),
                 b_.i32(4 * vec));
      return b_.load(buf, at, 4, 4);
    }
    if (wide_n_) {
      return f32(ev_.eval(
          bv_, operand(bv_, k, Expr(4) * vecs_[static_cast<size_t>(vec)].index + ev_.lane()), 4));
    }
    std::vector<Val> parts;
    for (int l = 0; l < 4; ++l) {
      RP_ASSIGN(const Val x, f32(ev_.eval(bv_, operand(bv_, k, column(vec, l)), 1)));
      parts.push_back(x);
    }
    return b_.compose(parts);
  }

  /// Four positions from 4 * quad of the four columns, as vectors along the columns.
  Status load_b_along_k(int vec, const Expr& quad, std::vector<Val>& by_position) {
    std::vector<Val> columns;
    for (int l = 0; l < 4; ++l) {
      RP_ASSIGN(const Val x,
                f32(ev_.eval(bv_, operand(bv_, Expr(4) * quad + ev_.lane(), column(vec, l)), 4)));
      columns.push_back(x);
    }
    for (int k = 0; k < 4; ++k) {
      std::vector<Val> parts;
      for (Val c : columns) parts.push_back(b_.extract(c, k));
      by_position[static_cast<size_t>(k * (tile_.cols / 4) + vec)] = b_.compose(parts);
    }
    return {};
  }

  /// B at 4 positions from 4 * quad, each lane loading its share: by_position[vecs * k + vec].
  Status load_shared_b(const Expr& quad, std::vector<Val>& by_position) {
    const int vecs = tile_.cols / 4;
    for (int share = 0; share < tile_.cols / kSharing; ++share) {
      RP_ASSIGN(const Val own, load_share(quad, share));
      for (int l = 0; l < kSharing; ++l) {
        std::array<Val, 4> parts;
        for (int c = 0; c < 4; ++c) {
          parts[static_cast<size_t>(c)] = b_.subgroup(
              kernel::SubgroupOp::Shuffle, b_.extract(own, c), b_.u32(static_cast<uint64_t>(l)));
        }
        if (!along_k_) {
          by_position[static_cast<size_t>(share * kSharing + l)] = b_.compose(parts);
          continue;
        }
        for (int k = 0; k < 4; ++k)
          columns_[static_cast<size_t>(k)][static_cast<size_t>(share * kSharing + l)] =
              parts[static_cast<size_t>(k)];
      }
    }
    if (!along_k_) return {};
    for (int k = 0; k < 4; ++k) {
      for (int v = 0; v < vecs; ++v) {
        const std::span<const Val> row(columns_[static_cast<size_t>(k)]);
        by_position[static_cast<size_t>(vecs * k + v)] =
            b_.compose(row.subspan(static_cast<size_t>(4 * v), 4));
      }
    }
    return {};
  }

  /// Packed or along columns: vector number i = kSharing * share + lane of the 4 positions, which
  /// is position i / vecs, vector i % vecs. Along k: 4 positions of column i.
  Result<Val> load_share(const Expr& quad, int share) {
    const int vecs = tile_.cols / 4;
    const Expr i = Expr(kSharing * share) + lane_;
    if (packed_) {
      const Val first = b_.add(b_.mul(n_tile_, ev_.value(k_)), ev_.value(Expr(4) * quad));
      const Val at = b_.add(b_.mul(first, b_.i32(tile_.cols)), ev_.value(Expr(4) * i));
      return b_.load(ev_.buffer(packed_->value), at, 4, 4);
    }
    if (along_k_) {
      const Val column = b_.add(b_.mul(n_tile_, b_.i32(tile_.cols)), ev_.value(i));
      const Val last = b_.sub(ev_.value(n_), b_.i32(1));
      const Expr at = ev_.symbol(b_.min(column, last), n_);
      return f32(ev_.eval(bv_, operand(bv_, Expr(4) * quad + ev_.lane(), at), 4));
    }
    const Expr position = Expr(4) * quad + ev_.simplify(Expr::floordiv(i, vecs));
    const Val own =
        b_.add(b_.mul(n_tile_, b_.i32(vecs)), ev_.value(ev_.simplify(Expr::mod(lane_, vecs))));
    const Expr vec = clamped(ev_, own, Expr::floordiv(n_, 4), false).index;
    return f32(ev_.eval(bv_, operand(bv_, position, Expr(4) * vec + ev_.lane()), 4));
  }

  /// Loads of a vector of B along one axis, counted on a kernel that is thrown away.
  int count_loads(bool along_k) const {
    Builder scratch("count");
    Evaluator ev(g_, group_, scratch);
    const Val x = scratch.convert(scratch.builtin(Builtin::GlobalId, 0), Ty::I32);
    const Val y = scratch.convert(scratch.builtin(Builtin::GlobalId, 1), Ty::I32);
    const Shape& shape = g_.value(bv_).shape;
    Index index(shape.size(), Expr(0));
    const Expr wide = Expr(4) * ev.symbol(x, Expr::floordiv(along_k ? k_ : n_, 4)) + ev.lane();
    const Expr other = ev.symbol(y, along_k ? n_ : k_);
    index[shape.size() - 2] = along_k ? wide : other;
    index[shape.size() - 1] = along_k ? other : wide;
    if (!ev.eval(bv_, index, 4).ok()) return 1000;
    auto k = scratch.finish();
    if (!k.ok()) return 1000;
    return static_cast<int>(
        std::count_if(k->insts.begin(), k->insts.end(),
                      [](const kernel::Inst& i) { return i.op == kernel::Op::Load; }));
  }

  void choose_b_direction() {
    if (packed_) return;
    const bool wide_k = k_.known_divisor(g_.symbols) % 4 == 0;
    along_k_ = wide_k && (!wide_n_ || count_loads(true) < count_loads(false));
  }

  Status step(RegisterTile& tile, const Expr& k, int lanes) {
    const int vecs = tile_.cols / 4;
    std::vector<Val> bs(static_cast<size_t>(lanes * vecs));
    const bool shared = lanes == 4 && tile_.share_b && (packed_ || wide_n_ || along_k_);
    if (shared) RP_TRY(load_shared_b(k, bs));
    for (int v = 0; v < vecs && !shared; ++v) {
      if (lanes == 4 && along_k_) {
        RP_TRY(load_b_along_k(v, k, bs));
        continue;
      }
      for (int l = 0; l < lanes; ++l) {
        const Expr at = lanes == 4 ? Expr(4) * k + Expr(l) : k;
        RP_ASSIGN(bs[static_cast<size_t>(l * vecs + v)], load_b(v, at));
      }
    }
    std::vector<Val> as;
    for (const Coordinate& row : rows_) {
      const Expr at = lanes == 4 ? Expr(4) * k + ev_.lane() : k;
      RP_ASSIGN(const Val x, f32(ev_.eval(a_, a_index(row.index, at), lanes)));
      as.push_back(x);
    }
    lanes == 4 ? tile.multiply4(as, bs) : tile.multiply(as, bs);
    return {};
  }

  Status body() {
    RegisterTile tile(b_, tile_.rows, tile_.cols, fma_);
    const Expr quads = Expr::floordiv(k_, 4);
    Status status;
    // Each iteration blends every accumulator with the execution mask on CPU-type devices: two
    // quads an iteration halve that.
    const bool pairs = tile_.share_b && k_.known_divisor(g_.symbols) % 8 == 0;
    auto loop = [&](const Expr& from, const Expr& to, int lanes) {
      const int unroll = lanes == 4 && pairs ? 2 : 1;
      const Expr end = Expr::floordiv(to, unroll);
      ev_.for_loop(ev_.value(from), ev_.value(end), b_.i32(1), end - from, [&](Val k) {
        const Expr at = ev_.symbol(k, end);
        for (int u = 0; u < unroll && status.ok(); ++u) {
          ev_.push_scope();
          status = step(tile, ev_.simplify(Expr(unroll) * at + Expr(u)), lanes);
          ev_.pop_scope();
        }
      });
    };
    loop(0, quads, 4);
    RP_TRY(status);
    if (k_.known_divisor(g_.symbols) % 4 != 0) loop(Expr(4) * quads, k_, 1);
    RP_TRY(status);
    for (int r = 0; r < tile_.rows; ++r) {
      const Coordinate& row = rows_[static_cast<size_t>(r)];
      RP_TRY(guard(ev_, row.in_range, [&] { return store_row(tile, r); }));
    }
    return {};
  }

  Status store_row(RegisterTile& tile, int r) {
    const Expr& row = rows_[static_cast<size_t>(r)].index;
    for (int v = 0; v < tile.vecs(); ++v) {
      const Val result = tile.result(r, v);
      Index index = row_index(row);
      if (wide_n_) {
        const Coordinate& vec = vecs_[static_cast<size_t>(v)];
        index.push_back(Expr(4) * vec.index + ev_.lane());
        RP_TRY(
            guard(ev_, vec.in_range, [&] { return store_outputs(ev_, group_, index, result, 4); }));
        continue;
      }
      index.emplace_back();
      for (int l = 0; l < 4; ++l) {
        const Coordinate& col = cols_[static_cast<size_t>(v * 4 + l)];
        index.back() = col.index;
        RP_TRY(guard(ev_, col.in_range,
                     [&] { return store_outputs(ev_, group_, index, b_.extract(result, l), 1); }));
      }
    }
    return {};
  }

  void describe_packing(Lowered& out) const {
    PackedOperand p;
    for (size_t i = 0; i < out.buffers.size(); ++i) {
      if (out.buffers[i].value == packed_->value) p.buffer = static_cast<int>(i);
    }
    p.k = k_.value();
    p.n = n_.value();
    p.tile_n = static_cast<uint32_t>(tile_.cols);
    p.transposed = packed_->transposed;
    out.packed.push_back(p);
  }

  const graph::Graph& g_;
  const Group& group_;
  const Target& target_;
  Builder b_;
  Evaluator ev_;
  Shape batch_;
  Shape row_shape_;  // rows of all batches as one; empty if batches are apart
  Expr m_, n_, k_;
  ValueId a_, bv_;
  Tile tile_;
  bool fma_ = false;
  bool wide_n_ = false;   // columns are stored as vectors
  bool along_k_ = false;  // unpacked B is consecutive along k
  std::optional<ConstantMatrix> packed_;
  Index batch_index_;
  Val n_tile_;
  Expr lane_;                                   // share_b: the subgroup's lane
  std::array<std::array<Val, 32>, 4> columns_;  // load_shared_b: by position
  std::vector<Coordinate> rows_;
  std::vector<Coordinate> vecs_;  // wide_n_: in units of 4 columns
  std::vector<Coordinate> cols_;  // otherwise
};

bool is_float_matmul(const graph::Graph& g, const graph::Node& n) {
  for (ValueId v : n.inputs) {
    const DType t = g.value(v).dtype;
    if (t != DType::F32 && t != DType::F16 && t != DType::BF16) return false;
  }
  return true;
}

}  // namespace

Result<Lowered> lower_matmul(const graph::Graph& g, const Group& group, const Target& target) {
  if (!is_float_matmul(g, *group.anchor)) return lower_pointwise(g, group, target);
  return MatMulKernel(g, group, target).build();
}

}  // namespace reprise::lower
