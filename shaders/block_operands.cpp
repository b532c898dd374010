#include "shaders/block_operands.h"

#include <array>

namespace reprise::shaders {

using kernel::Builtin;
using kernel::Ty;
using kernel::Val;

BlockOperands::BlockOperands(Gemm& gemm, const Tile& tile, int shared, BlockLayout left,
                             BlockLayout right)
    : gemm_(gemm),
      b_(gemm.builder()),
      tile_(tile),
      shared_(shared),
      half_(b_.shared_type(shared) == Ty::F16) {
  left_.layout = left;
  left_.along_k = true;
  right_.layout = right;
  right_.along_k = gemm_.b_along_k();
}

void BlockOperands::begin(Val row, Val column) {
  begin_left(row);
  begin_right(column);
}

/// Splits `count` vectors over the invocations; calls fn with the number of each one's own.
void BlockOperands::divide(int count, const std::function<void(Val)>& fn) {
  const Val local = b_.convert(b_.builtin(Builtin::LocalIndex), Ty::I32);
  const int invocations = static_cast<int>(tile_.workgroup);
  for (int first = 0; first < count; first += invocations) fn(b_.add(local, b_.i32(first)));
}

void BlockOperands::add_vector(Part& part, int handle, Val place, Val index, Val position) {
  const BlockLayout& at = part.layout;
  part.handles.push_back(handle);
  part.places.push_back(place);
  part.offsets.push_back(b_.add(b_.add(b_.mul(index, b_.i32(at.across)), b_.i32(at.base)),
                                b_.mul(position, b_.i32(at.along))));
  for (int i = 0; i < 4; ++i)
    part.loaded.push_back(b_.local("loaded" + std::to_string(locals_++), kernel::kF32));
}

void BlockOperands::begin_left(Val row) {
  const int quads = tile_.step / 4;
  divide(tile_.rows * quads, [&](Val n) {
    const bool along = gemm_.a_along_k();
    const Val quad = along ? b_.rem(n, b_.i32(quads)) : b_.div(n, b_.i32(tile_.rows));
    const Val r = along ? b_.div(n, b_.i32(quads)) : b_.rem(n, b_.i32(tile_.rows));
    add_vector(left_, gemm_.row(b_.add(row, r)), quad, r, b_.mul(quad, b_.i32(4)));
  });
}

void BlockOperands::begin_right(Val column) {
  if (right_.along_k) {
    const int quads = tile_.step / 4;
    divide(tile_.columns * quads, [&](Val n) {
      const Val quad = b_.rem(n, b_.i32(quads)), c = b_.div(n, b_.i32(quads));
      const Val at = b_.add(b_.mul(column, b_.i32(tile_.columns)), c);
      add_vector(right_, gemm_.column(at), quad, c, b_.mul(quad, b_.i32(4)));
    });
    return;
  }
  const int width = tile_.columns / 4;
  divide(width * tile_.step, [&](Val n) {
    const Val v = b_.rem(n, b_.i32(width)), k = b_.div(n, b_.i32(width));
    const Val at = b_.add(b_.mul(column, b_.i32(width)), v);
    add_vector(right_, gemm_.column(at), k, b_.mul(v, b_.i32(4)), k);
  });
}

Status BlockOperands::loop(int size, const std::function<void(Val at)>& multiply) {
  const auto first = [&]() -> Status {
    RP_TRY(load(b_.i32(0)));
    store(b_.i32(0));
    return {};
  };
  return gemm_.k_blocks(first, [&](Val i) -> Status {
    b_.barrier();
    // The last one once more at the end, so that the loop needs no branch.
    RP_TRY(load(b_.min(b_.add(i, b_.i32(1)), b_.sub(gemm_.k_block_count(), b_.i32(1)))));
    const Val current = b_.rem(i, b_.i32(2));
    multiply(b_.mul(current, b_.i32(size)));
    store(b_.mul(b_.sub(b_.i32(1), current), b_.i32(size)));
    return {};
  });
}

Status BlockOperands::load(Val block) {
  for (Part* part : {&left_, &right_}) {
    const int places = part->along_k ? tile_.step / 4 : tile_.step;
    for (size_t i = 0; i < part->handles.size(); ++i) {
      const Val at = b_.add(b_.mul(block, b_.i32(places)), part->places[i]);
      Result<Gemm::Values> x = part == &left_ ? gemm_.load_a_block(part->handles[i], at)
                                              : gemm_.load_b_block(part->handles[i], at);
      RP_ASSIGN(const Gemm::Values four, std::move(x));
      for (size_t n = 0; n < 4; ++n) b_.local_store(part->loaded[4 * i + n], four[n]);
    }
  }
  return {};
}

void BlockOperands::store(Val offset) {
  for (const Part* part : {&left_, &right_}) {
    for (size_t i = 0; i < part->handles.size(); ++i)
      store_vector(*part, b_.add(offset, part->offsets[i]), &part->loaded[4 * i]);
  }
}

void BlockOperands::store_vector(const Part& part, Val at, const int* loaded) {
  const auto element = [&](int i) { return b_.local_load(loaded[i]); };
  const auto stored = [&](Val v) { return half_ ? b_.convert(v, Ty::F16, true) : v; };
  const int between = part.along_k ? part.layout.along : part.layout.across;
  if (between == 1) {
    const std::array four{element(0), element(1), element(2), element(3)};
    b_.shared_store(shared_, at, stored(b_.compose(four)));
    return;
  }
  for (int i = 0; i < 4; ++i)
    b_.shared_store(shared_, b_.add(at, b_.i32(i * between)), stored(element(i)));
}

}  // namespace reprise::shaders
