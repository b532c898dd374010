// Handles of the C interface that need devices.
#pragma once

#include <memory>
#include <vector>

#include "runtime/api_handles.h"
#include "runtime/session.h"

struct reprise_device {
  std::shared_ptr<reprise::Device> device;  // null: the host
};

struct reprise_buffer {
  std::shared_ptr<reprise::Device> device;
  std::unique_ptr<reprise::Buffer> buffer;
};

struct reprise_session {
  std::shared_ptr<reprise::Session> session;  // a run in flight holds it as well
};

struct reprise_results {
  std::vector<reprise::HostTensor> outputs;
};
