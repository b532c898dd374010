// Emits the cooperative matrices of subgroups and workgroups (SPV_KHR_cooperative_matrix). Those of
// workgroups, and of sizes that the driver lists as multiples, need VK_NV_cooperative_matrix2, but
// nothing more in the module.
#include "codegen/emit/access.h"
#include "codegen/emit/spirv/cooperative_matrix.h"
#include "codegen/emit/spirv/emitter.h"

namespace reprise::emit {

using kernel::MatrixAccess;
using kernel::MatrixOperands;
using kernel::MatrixUse;
using kernel::MatrixVar;
using kernel::Op;

namespace {

matrix::Use use_of(MatrixUse u) {
  switch (u) {
    case MatrixUse::Left:
      return matrix::kUseA;
    case MatrixUse::Right:
      return matrix::kUseB;
    case MatrixUse::Sum:
      break;
  }
  return matrix::kUseAccumulator;
}

}  // namespace

/// Modules with matrices use the Vulkan memory model, in which accesses are private to an
/// invocation unless marked otherwise.
void SpirvEmitter::declare_matrix_model() {
  if (!has_matrices()) return;
  m_.capability(matrix::kCapability);
  m_.extension(matrix::kExtension, UINT32_MAX);
  m_.use_vulkan_memory_model();
}

Id SpirvEmitter::matrix_type(const MatrixVar& v) {
  if (v.type == Ty::BF16) m_.capability(matrix::kMatricesOfBfloat16);
  const spv::Scope scope =
      v.scope == MmaScope::Workgroup ? spv::ScopeWorkgroup : spv::ScopeSubgroup;
  return m_.matrix_type(shared_type(v.type, 1), scope, v.rows, v.columns, use_of(v.use));
}

void SpirvEmitter::declare_matrices() {
  for (const MatrixVar& v : k_.matrices) {
    const Id pointer = m_.pointer_type(spv::StorageClassFunction, matrix_type(v));
    matrices_.push_back(m_.value(spv::OpVariable, pointer, {spv::StorageClassFunction}));
    m_.name(matrices_.back(), v.name);
  }
}

Id SpirvEmitter::load_matrix(size_t n) {
  return m_.value(spv::OpLoad, matrix_type(k_.matrices[n]), {matrices_[n]});
}

void SpirvEmitter::matrix(const Inst& i) {
  if (i.op == Op::MatrixZero) {
    const MatrixVar& v = k_.matrices[i.imm];
    const Id zero[] = {number({v.type, 1}, 0)};
    m_.code(spv::OpStore, {matrices_[i.imm], m_.constant_composite(matrix_type(v), zero)});
    return;
  }
  if (i.op == Op::MatrixMulAdd) {
    const MatrixOperands p = MatrixOperands::of(i.imm);
    const Id left = load_matrix(p.left), right = load_matrix(p.right), sum = load_matrix(p.sum);
    const Id total =
        m_.value(matrix::kOpMulAdd, matrix_type(k_.matrices[p.sum]), {left, right, sum});
    m_.code(spv::OpStore, {matrices_[p.sum], total});
    return;
  }
  const MatrixAccess a = MatrixAccess::of(i.imm);
  const MatrixVar& v = k_.matrices[a.matrix];
  const Memory& array = shared_[a.shared];
  const Id element = shared_type(v.type, array.width);
  const Id first = element_path(i, array.width, array.width, 0).front();
  const Id pointer =
      m_.value(spv::OpAccessChain, m_.pointer_type(spv::StorageClassWorkgroup, element),
               {array.base, first});
  const Id layout = m_.constant_u32(a.by_columns ? matrix::kColumnMajor : matrix::kRowMajor);
  // Lines are counted in elements of the array, which may be vectors.
  const Id stride = m_.constant_u32(a.stride / array.width);
  constexpr uint32_t kShared = spv::MemoryAccessNonPrivatePointerMask;
  if (i.op == Op::MatrixLoad) {
    const Id value = m_.value(matrix::kOpLoad, matrix_type(v), {pointer, layout, stride, kShared});
    m_.code(spv::OpStore, {matrices_[a.matrix], value});
  } else {
    m_.code(matrix::kOpStore, {pointer, load_matrix(a.matrix), layout, stride, kShared});
  }
}

}  // namespace reprise::emit
