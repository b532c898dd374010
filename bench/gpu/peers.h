// The peers in this process: NVIDIA's libraries and the driver itself.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/gpu/stream_peer.h"

namespace reprise::bench::gpu {

class Cublas;
class Cudnn;

/// The available peers with their versions, and why others are missing.
struct Peers {
  std::shared_ptr<const PeerContext> context;
  std::shared_ptr<const Cublas> cublas;
  std::shared_ptr<const Cudnn> cudnn;
  std::map<std::string, std::string> versions, missing;

  static Peers open(const std::shared_ptr<const PeerContext>& context);
};

/// The peers that can compute the case. Values and peers must outlive the entries.
std::vector<Entry> peers_of(const Case& c, const Tensors& values, const Peers& peers);

// --- cublas.cpp ---
Result<std::shared_ptr<const Cublas>> open_cublas(std::shared_ptr<const PeerContext> context,
                                                  std::string& version);
Result<ContenderPtr> cublas_gemm(std::shared_ptr<const Cublas> cublas, const GemmOp& op,
                                 const Tensors& values, bool tf32);
// --- cudnn.cpp ---
Result<std::shared_ptr<const Cudnn>> open_cudnn(std::shared_ptr<const PeerContext> context,
                                                std::string& version);
Result<ContenderPtr> cudnn_softmax(std::shared_ptr<const Cudnn> cudnn, const SoftmaxOp& op,
                                   const Tensors& values);
Result<ContenderPtr> cudnn_conv(std::shared_ptr<const Cudnn> cudnn, const ConvOp& op,
                                const Tensors& values, bool tf32);
// --- driver_peers.cpp ---
Result<ContenderPtr> driver_copy(std::shared_ptr<const PeerContext> context, const Tensors& values);
/// Launches the kernels of the case one by one.
Result<ContenderPtr> stream_launches(const Case& c, std::shared_ptr<const PeerContext> context,
                                     const Tensors& values);

/// Whether the driver is NVIDIA's and not a stand-in for it. NVIDIA's libraries get all functions
/// of the driver from one that only it has, and crash without it.
Status check_nvidia_driver();

}  // namespace reprise::bench::gpu
