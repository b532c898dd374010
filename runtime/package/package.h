// A compiled model (.rpk): its interface, variants, raw weights, and the host plan.
//
// File layout: a 64-byte header (magic, version, sizes, checksum of the metadata), FlatBuffers
// metadata, then weight segments with 64-bit offsets. Segments of 64 KiB and more are at multiples
// of 4 KiB, smaller ones at multiples of 64 bytes. The metadata has the XXH3 of each segment and
// the code of the kernels: each piece once, compressed with zstd and a dictionary for its form, and
// decompressed when a session selects its variant. The reader trusts nothing: it verifies offsets,
// sizes, enumerations and plans before it uses them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/tensor.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/probe.h"
#include "runtime/platform/file.h"
#include "runtime/platform/file_bytes.h"

namespace reprise::package {

class CodeStore;
class StoredWeights;

/// The indices of a kernel's code in the CodeStore of a package that was read. UINT32_MAX: the
/// kernel has no code of that form.
struct StoredCode {
  uint32_t spirv = UINT32_MAX, cuda = UINT32_MAX, image = UINT32_MAX;
};

/// A plan with kernels for devices that satisfy the predicate.
struct CompiledPlan {
  std::string name;  // of the variant, or of the body: "then_branch of node 'n'"
  Predicate predicate;
  plan::Plan plan;
  std::vector<plan::Probe> probes;  // one per kernel of the plan; empty if compiled without probes
  /// One per kernel if the package was read: the kernels of `plan` then have no code, and
  /// load_kernels() returns them with it. Empty if the package was compiled in this process: the
  /// kernels of `plan` then have their code.
  std::vector<StoredCode> stored;
};

/// A body of If, Loop or Scan that devices run: plan::Body with kernels.
struct DeviceBody : CompiledPlan {
  plan::Interface io;
  std::vector<uint32_t> captures;
  size_t inherited_symbols = 0;
};

/// The values of a symbol of the package's interface, both ends inclusive.
struct SymbolValues {
  SymbolId symbol = 0;
  int64_t min = 0, max = 0;
};

/// A plan whose kernels are made for some sizes of the inputs.
struct SizedPlan : CompiledPlan {
  std::vector<SymbolValues> sizes;  // all of them must hold; each symbol occurs once
  std::string why;                  // there is this plan, for people
};

/// The most plans for some sizes that a variant has. Readers refuse more.
inline constexpr size_t kMostPlans = 64;

/// "sequence=2..16"
std::string describe_sizes(const std::string& name, int64_t min, int64_t max);
/// "batch=1, sequence=2..16"
std::string describe_sizes(const std::vector<SymbolValues>& sizes,
                           const std::vector<Symbol>& symbols);

/// "vulkan-cpu-sg8", "vulkan-baseline", "cuda-sm_90". Its own plan serves all sizes.
struct Variant : CompiledPlan {
  /// The bodies that devices run. They have the variant's predicate. A body calls only bodies
  /// before it.
  std::vector<DeviceBody> bodies;
  /// A run uses the first of these plans that serves its sizes, or else the variant's own plan.
  /// They have the variant's predicate, and call the same bodies.
  std::vector<SizedPlan> plans;
};

/// Calls f with the variant, its plans for some sizes and its bodies, as CompiledPlan.
template <typename V, typename F>
void for_each_plan(V& variant, const F& f) {
  f(variant);
  for (auto& plan : variant.plans) f(plan);
  for (auto& body : variant.bodies) f(body);
}

// What explain prints, recorded by the compiler. Strings are for people.
struct GroupInfo {
  std::string kernel;
  std::vector<std::string> nodes;
  int64_t bytes_read = -1, bytes_written = -1;  // -1: depends on dynamic sizes
  std::string schedule;
};
struct Unfused {
  std::string from, to, reason;
};
/// A node whose result stays fp32 in a package of low precision.
struct KeptNode {
  std::string node, op, reason;
};
struct Explanation {
  int64_t model_nodes = 0;       // after import (functions inlined, constants as weights)
  int64_t launches_unfused = 0;  // with fusion switched off
  std::vector<Unfused> unfused;
  DType precision = DType::F32;  // of tensors in memory, where that is safe: F32, F16 or BF16
  int64_t narrowed = 0;          // number of nodes whose results have that precision
  std::vector<KeptNode> kept;
  std::vector<std::string> notes;  // what the importer assumed or found odd in the model
};

/// A weight that consists of others, which lie side by side along an axis.
struct WeightParts {
  uint32_t axis = 0;
  std::vector<uint32_t> segments;
};

/// Immutable and thread-safe once it was read or compiled.
struct Package {
  std::string model_name;
  std::string producer;                                       // "reprise 0.1.0"
  std::vector<std::pair<std::string, std::string>> metadata;  // of the model file
  plan::Interface io;
  /// Raw segments. Those of a package that was read have no bytes: load_weight() gets them.
  std::vector<HostTensor> weights;
  std::vector<uint64_t> weight_hashes;  // may be empty if the package was compiled in this process
  /// By the index of a weight: what it consists of, if it has no bytes and no hash of its own.
  std::map<uint32_t, WeightParts> parts;
  std::vector<Variant> variants;  // in order of preference
  plan::Plan host_plan;           // the reference: host calls of the imported graph, unfused
  /// Bodies of the control flow in all plans. A body calls only bodies before it.
  std::vector<plan::Body> bodies;
  Explanation explanation;
  // Null if the package was compiled in this process.
  std::shared_ptr<const CodeStore> code;  // Variant::stored has indices into it
  std::shared_ptr<const StoredWeights> stored_weights;
};

/// Verifies the package, writes a temporary file beside `path` and renames it.
Status write(const Package& p, const std::string& path);
/// Checks that plans, interface and weights fit each other. write() and read() do so, too.
Status verify(const Package& p);
/// Copies the metadata and checks everything except weights, which load_weight() copies and checks
/// when they are needed, and the code of kernels, which load_kernels() checks. The file stays open
/// as long as the package exists. If it is changed meanwhile, load_weight() fails.
Result<std::shared_ptr<const Package>> read(const std::string& path);
/// Whether the file begins like a package, of this version or another one.
bool is_package(const std::string& path);
/// Reads the part of a file that the caller opened: `length` bytes from `offset` on, or up to the
/// end if it is 0. The caller may close it afterwards.
Result<std::shared_ptr<const Package>> read_part(platform::NativeFile file, uint64_t offset,
                                                 uint64_t length);
/// Reads a package from memory, such as bytes that an application embeds. The package copies the
/// metadata, and weights that are not aligned to 64 when they are needed. It borrows the other
/// weights from `bytes`, which `owner` keeps alive.
Result<std::shared_ptr<const Package>> read_memory(std::span<const std::byte> bytes,
                                                   std::shared_ptr<const void> owner);
/// Returns a weight with its bytes, which are in memory as long as the result, and checks their
/// hash.
Result<HostTensor> load_weight(const Package& p, size_t index);
/// A part of the bytes of a weight, from byte `offset` on.
using UseWeightPiece = std::function<Status(uint64_t offset, std::span<const std::byte> bytes)>;
/// Calls `use` with the bytes of a weight in order: at once if they are in memory, and otherwise in
/// pieces of some megabytes that begin at multiples of `unit` bytes and are read into `scratch`,
/// which the caller keeps for the next weight. Checks their hash: a failure may come after the last
/// piece.
Status read_weight(const Package& p, size_t index, uint64_t unit, std::vector<std::byte>& scratch,
                   const UseWeightPiece& use);
/// The size of a weight.
inline uint64_t weight_bytes(const HostTensor& weight) {
  return static_cast<uint64_t>(weight.count()) * size_of(weight.dtype());
}
/// Frees the bytes of large weights that files have as well, if that is worth it: load_weight()
/// reads them again, and fails if the file was changed.
void leave_in_files(Package& p, const platform::FileBytes& files);
/// Checks the hashes of all weights.
Status verify_weights(const Package& p);
/// Returns the kernels of a plan of a variant with their code, after checking its hash and
/// contents. Errors name the package and the kernel.
Result<std::vector<plan::KernelCode>> load_kernels(const Package& p, const CompiledPlan& v);
/// Returns the package with the code of all kernels in its plans, for tools that inspect it.
Result<std::shared_ptr<const Package>> unpack(std::shared_ptr<const Package> p);
/// XXH3 with 128 bits and a seed that is random in each process, so that nobody can make different
/// bytes with the same hash beforehand.
std::array<uint64_t, 2> keyed_hash(std::span<const std::byte> bytes);
/// XXH3 with 64 bits.
uint64_t hash_bytes(std::span<const std::byte> bytes);

/// Both hashes of bytes that come in pieces.
class PieceHash {
 public:
  PieceHash();
  ~PieceHash();
  PieceHash(const PieceHash&) = delete;
  PieceHash& operator=(const PieceHash&) = delete;
  void add(std::span<const std::byte> bytes);
  /// As hash_bytes() and keyed_hash() of all bytes so far.
  uint64_t plain() const;
  std::array<uint64_t, 2> keyed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise::package
