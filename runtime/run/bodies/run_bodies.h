// What run_bodies.cpp and run_loops.cpp share: calls of bodies that run on the device.
#pragma once

#include <optional>
#include <vector>

#include "runtime/run/run_state.h"

namespace reprise {

/// A body and the values of one call of it.
struct RunContext::BodyCall {
  const plan::HostCall& call;
  uint32_t body;                // index into SessionBase::bodies
  std::vector<Binding> inputs;  // what the operator passes; bind_body() adds what the body captures
  std::vector<std::optional<HostTensor>> captured = {};  // on the host
  std::vector<int64_t> symbols = {};                     // of the body
  /// Where results go. The others are returned.
  std::vector<std::optional<Binding>> outputs = {};
  host::RandomState random = {};
};

/// A run of a body. It stays where it is, because its parts refer to each other.
struct RunContext::BodyRun {
  BodyRun() = default;
  BodyRun(const BodyRun&) = delete;
  BodyRun& operator=(const BodyRun&) = delete;

  uint32_t body = 0;
  RunContext* context = nullptr;
  std::vector<Binding> inputs;
  std::vector<std::optional<Binding>> outputs;
  BoundIo io;
  std::optional<Run> own;
};

/// Checks that the tensor has the type of that input of the body.
Status check_type(const package::DeviceBody& body, size_t input, const plan::Buffer& buffer);

}  // namespace reprise
