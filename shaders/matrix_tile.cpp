#include "shaders/matrix_tile.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace reprise::shaders {

using kernel::Builtin;
using kernel::MatrixUse;
using kernel::ScalarOp;
using kernel::Ty;

namespace {
constexpr int64_t kMostQuads = int64_t{1} << 29;  // of the values of k of a sum
}  // namespace

Tile matrix_tile(const MatrixArrangement& shape, const MmaConfig& matrix,
                 const TargetFacts& device) {
  Tile t;
  t.matrix = matrix;
  const bool whole = matrix.scope == MmaScope::Workgroup;
  t.rows = (whole ? 1 : kSideRows) * shape.rows * static_cast<int>(matrix.m);
  t.columns = shape.side_columns * shape.columns * static_cast<int>(matrix.n);
  t.per_invocation = shape.rows;
  t.unit = Unit::Workgroup;
  t.subgroup_size = device.subgroup_size();
  t.workgroup = whole ? matrix.invocations
                      : static_cast<uint32_t>(kSideRows * shape.side_columns) * t.subgroup_size;
  t.step = std::max(shape.step, static_cast<int>(matrix.k));
  return t;
}

double matrix_work(const Tile& t) {
  const GpuCosts& gpu = kGpuCosts;
  const MatrixDivision part(t);
  const double threads = t.workgroup;
  const bool split = t.matrix.types == kSplitMma;
  const double speed = split ? gpu.split_speed : gpu.matrix_speed;
  const double multiply_adds = t.rows * t.columns * t.step / threads / speed;
  const double loads = static_cast<double>(part.rows + part.columns) * t.step / t.matrix.k;
  const double load = gpu.matrix_load + (split ? gpu.split : 0);
  return load * loads + multiply_adds + gpu.barrier;
}

MatrixTile::MatrixTile(const TileWork& work) : w_(work), b_(work.gemm.builder()), part_(work.tile) {
  const MmaConfig& matrix = w_.tile.matrix;
  const Value subgroup =
      part_.whole ? b_.i32(0) : b_.convert(b_.builtin(Builtin::SubgroupIndex), Ty::I32);
  row_ = subgroup / part_.side_columns * static_cast<int64_t>(matrix.m);
  column_ = subgroup % part_.side_columns * (part_.columns * static_cast<int64_t>(matrix.n));
  const Ty type = operand_type(w_.tile);
  const auto add = [&](const char* name, int i, MatrixUse use, Ty of, uint32_t rows,
                       uint32_t columns) {
    return b_.matrix(name + std::to_string(i), use, of, rows, columns, matrix.scope);
  };
  for (int i = 0; i < part_.rows; ++i)
    left_.push_back(add("left", i, MatrixUse::Left, type, matrix.m, matrix.k));
  for (int i = 0; i < part_.columns; ++i)
    right_.push_back(add("right", i, MatrixUse::Right, type, matrix.k, matrix.n));
  for (int i = 0; i < part_.rows * part_.columns; ++i) {
    sums_.push_back(add("sum", i, MatrixUse::Sum, Ty::F32, matrix.m, matrix.n));
    b_.matrix_zero(sums_.back());
  }
}

void MatrixTile::multiply(const MatrixBlock& block, Value a_buffer, Value b_buffer) {
  const MmaConfig& matrix = w_.tile.matrix;
  // Lines of A and B begin at multiples of 16 bytes if the matrices do.
  const auto line = 16U / static_cast<uint32_t>(kernel::byte_size(operand_type(w_.tile)));
  const bool aligned = matrix.k % line == 0 && matrix.n % line == 0 && matrix.m % line == 0;
  const uint32_t align = aligned ? line : 1;
  const auto load = [&](int to, Value buffer, const BlockLayout& from, Value element, int k,
                        bool by_columns) {
    const Value at = buffer + (from.base + k * from.along) + element * from.across;
    const int stride = from.along == 1 ? from.across : from.along;
    b_.matrix_load(to, block.shared, at, static_cast<uint32_t>(stride), by_columns, align);
  };
  for (int k = 0; k < w_.tile.step; k += static_cast<int>(matrix.k)) {
    for (size_t i = 0; i < left_.size(); ++i) {
      const Value row = row_ + static_cast<int64_t>(i) * part_.stored_rows;
      load(left_[i], a_buffer, block.a, row, k, block.a.along != 1);
    }
    for (size_t i = 0; i < right_.size(); ++i) {
      const Value column = column_ + static_cast<int64_t>(i) * matrix.n;
      load(right_[i], b_buffer, block.b, column, k, block.b.along == 1);
    }
    for (size_t r = 0; r < left_.size(); ++r) {
      for (size_t c = 0; c < right_.size(); ++c)
        b_.matrix_mul_add(sums_[r * right_.size() + c], left_[r], right_[c]);
    }
  }
}

Status MatrixTile::store_row(int matrix_row, int sums) {
  const Tile& t = w_.tile;
  const int line = t.columns + kSumPad, rows = part_.stored_rows;
  const uint32_t align = t.matrix.n % 4 == 0 ? 4 : 1;
  for (size_t c = 0; c < right_.size(); ++c) {
    const Value column = column_ + static_cast<int64_t>(c) * t.matrix.n;
    b_.matrix_store(sums_[static_cast<size_t>(matrix_row) * right_.size() + c], sums,
                    row_ * line + column, static_cast<uint32_t>(line), false, align);
  }
  b_.barrier();
  const int width = t.columns / 4;
  const int invocations = static_cast<int>(t.workgroup);
  const int count = rows * width / invocations;
  const Value local = local_index(b_);
  const bool along = w_.gemm.a_along_k();  // else neighbouring elements of C differ in row
  return w_.result.loop(b_.i32(count), count, [&](Value i) {
    const Value n = i * invocations + local;
    const Value r = along ? n / width : n % rows;
    const Value v = along ? n % width : n / rows;
    const Value row = w_.origin.row + (r + matrix_row * static_cast<int64_t>(rows));
    const Value vec = w_.origin.column_tile * width + v;
    return w_.result.guard_columns(vec, [&] {
      return w_.result.guard_row(row, [&] {
        const Value four = b_.shared_load(sums, r * line + v * 4, 4);
        if (t.matrix.types != kSplitMma) return w_.result.store(row, vec, four);
        RP_ASSIGN(const Value checked, finite_or_single(row, vec, four));
        return w_.result.store(row, vec, checked);
      });
    });
  });
}

Result<Value> MatrixTile::finite_or_single(Value row, Value vec, Value four) {
  LocalGrid total(b_, "total", kernel::kF32, 1, 4, std::nullopt);
  Val finite;
  for (int c = 0; c < 4; ++c) {
    const Val sum = b_.extract(four, c);
    total.store(0, c, sum);
    const Val size = b_.scalar_op(ScalarOp::Abs, {sum});
    const Val one = b_.lt(size, b_.f32(std::numeric_limits<float>::infinity()));
    finite = c == 0 ? one : Val{b_.logical_and(finite, one)};
  }
  const Value again = b_.select(finite, b_.i32(0), b_.i32(1));
  RP_TRY(w_.result.loop(again, 1, [&](Value) { return add_singles(total, row, vec); }));
  return total.load_vector(0, 0);
}

Status MatrixTile::add_singles(LocalGrid& total, Value row, Value vec) {
  Gemm& gemm = w_.gemm;
  const bool along = gemm.b_along_k();
  const Index at = gemm.row(row);
  const std::vector<Column> columns = gemm_columns(gemm, along ? vec * 4 : vec, along ? 4 : 1);
  for (int c = 0; c < 4; ++c) total.store(0, c, b_.f32(0));
  const int quads = w_.tile.step / 4;
  const Value first = gemm.first_k_block() * quads;
  return w_.result.loop(gemm.k_block_count() * quads, kMostQuads, [&](Value i) -> Status {
    const Value quad = first + i;
    RP_ASSIGN(const Values a, gemm.load_a_block(at, quad, false));
    std::vector<Values> loaded;  // by column if along k, else by k
    for (int n = 0; n < 4; ++n) {
      RP_ASSIGN(Values b, along ? gemm.load_b_block(columns[static_cast<size_t>(n)], quad, false)
                                : gemm.load_b_block(columns[0], quad * 4 + n, false));
      loaded.push_back(std::move(b));
    }
    for (size_t c = 0; c < 4; ++c) {
      Value sum = total.load(0, static_cast<int>(c));
      for (size_t k = 0; k < 4; ++k) sum = b_.fma(a[k], along ? loaded[c][k] : loaded[k][c], sum);
      total.store(0, static_cast<int>(c), sum);
    }
    return {};
  });
}

Status MatrixTile::store() {
  const int line = w_.tile.columns + kSumPad;
  const int sums = b_.shared("sums", Ty::F32, static_cast<uint32_t>(part_.stored_rows * line));
  for (int r = 0; r < part_.rows; ++r) {
    if (r > 0) b_.barrier();
    RP_TRY(store_row(r, sums));
  }
  return {};
}

}  // namespace reprise::shaders
