// A model that every Vulkan variant computes on the interpreter, and every Vulkan device on itself,
// compared with the host.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/graph/graph.h"
#include "runtime/base/tensor.h"
#include "runtime/device/backend.h"

namespace reprise::test {

class ModelOnVariants {
 public:
  virtual ~ModelOnVariants() = default;

 protected:
  /// Parses the graph, and computes its outputs on the host. `inputs` are in the graph's order.
  void load(const std::string& text, std::vector<HostTensor> inputs);
  void interpret_every_variant();
  void run_on_devices();
  /// Compares the bytes of an output with expected_. `what` names the variant or the device.
  virtual void compare(size_t output, std::span<const std::byte> actual,
                       const std::string& what) = 0;

  bool fullgraph_ = false;  // devices may not leave nodes to the host
  std::unique_ptr<graph::Graph> model_;
  std::vector<HostTensor> inputs_, expected_;

 private:
  std::vector<HostTensor> run(const std::vector<std::string>& targets,
                              const std::shared_ptr<Device>& device) const;
};

}  // namespace reprise::test
