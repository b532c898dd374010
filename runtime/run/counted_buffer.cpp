#include "runtime/run/counted_buffer.h"

namespace reprise {

Result<CountedBuffer> CountedBuffer::allocate(SessionResources& session, uint64_t bytes,
                                              MemoryUse use) {
  CountedBuffer b;
  RP_ASSIGN(b.buffer_, session.device->allocate_or_free_idle(bytes, use));
  b.totals_ = &session.totals;
  session.totals.device_bytes += b.buffer_->size();
  return b;
}

CountedBuffer::~CountedBuffer() {
  if (buffer_) totals_->device_bytes -= buffer_->size();
}

}  // namespace reprise
