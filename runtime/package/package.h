// A compiled model (.rpk): its interface, variants, raw weights, and the host plan.
//
// File layout: a 64-byte header (magic, version, sizes, checksum of the metadata), FlatBuffers
// metadata, then weight segments with 64-bit offsets. Segments of 64 KiB and more are at multiples
// of 4 KiB, smaller ones at multiples of 64 bytes. The metadata has the XXH3 of each segment and
// the code of the kernels: each piece once, compressed with zstd and a dictionary for its form, and
// decompressed when a session selects its variant. The reader trusts nothing: it verifies offsets,
// sizes, enumerations and plans before it uses them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/tensor.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/probe.h"

namespace reprise::package {

class CodeStore;

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

/// "vulkan-cpu-sg8", "vulkan-baseline", "cuda-sm_90".
struct Variant : CompiledPlan {
  /// The bodies that devices run. They have the variant's predicate. A body calls only bodies
  /// before it.
  std::vector<DeviceBody> bodies;
};

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

/// Immutable and thread-safe once it was read or compiled.
struct Package {
  std::string model_name;
  std::string producer;  // "reprise 0.1.0"
  plan::Interface io;
  std::vector<HostTensor> weights;  // raw segments; borrowed from the mapped file when read
  std::vector<uint64_t> weight_hashes;
  std::vector<Variant> variants;  // in order of preference
  plan::Plan host_plan;           // the reference: host calls of the imported graph, unfused
  /// Bodies of the control flow in all plans. A body calls only bodies before it.
  std::vector<plan::Body> bodies;
  Explanation explanation;
  std::shared_ptr<const CodeStore> code;  // Variant::stored has indices into it
};

/// Verifies the package, writes a temporary file beside `path` and renames it. Computes the hashes
/// of weights; does not read Package::weight_hashes.
Status write(const Package& p, const std::string& path);
/// Checks that plans, interface and weights fit each other. write() and read() do so, too.
Status verify(const Package& p);
/// Maps the file and checks everything except the hashes of weights, which are checked when weights
/// are uploaded or by verify_weights(), and the code of kernels, which load_kernels() checks.
Result<std::shared_ptr<const Package>> read(const std::string& path);
/// Reads a package from memory, such as bytes that an application embeds. The package borrows
/// `bytes`, which `owner` keeps alive, or copies them if they are not aligned to 64.
Result<std::shared_ptr<const Package>> read_memory(std::span<const std::byte> bytes,
                                                   std::shared_ptr<const void> owner);
/// Checks the hashes of all weights.
Status verify_weights(const Package& p);
/// Returns the kernels of a plan of a variant with their code, after checking its hash and
/// contents. Errors name the package and the kernel.
Result<std::vector<plan::KernelCode>> load_kernels(const Package& p, const CompiledPlan& v);
/// Returns the package with the code of all kernels in its plans, for tools that inspect it.
Result<std::shared_ptr<const Package>> unpack(std::shared_ptr<const Package> p);
/// XXH3 with 64 bits.
uint64_t hash_bytes(std::span<const std::byte> bytes);

}  // namespace reprise::package
