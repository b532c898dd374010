// A language model with caches: takes ids, and gives the logits of the position behind them.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/session/session.h"

namespace reprise::app {

/// A cache as an input and as an output of the model.
struct CachePair {
  std::string past, present;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;  // -1 for the length, which axis `axis` has
  size_t axis = 0;
};

/// The tensors of a language model: `input_ids`, perhaps `attention_mask` and `position_ids`, and
/// pairs such as `past_key_values.0.key` and `present.0.key`; `logits`. Other inputs are an error.
struct DecoderInterface {
  std::string ids, mask, positions, logits;
  DType ids_type = DType::I64, mask_type = DType::I64, positions_type = DType::I64;
  DType logits_type = DType::F32;
  bool all_logits = false;  // of every position, not of the last one alone
  int64_t vocabulary = 0;
  std::vector<CachePair> caches;
};
Result<DecoderInterface> decoder_interface(const plan::Interface& io);

struct DecoderStats {
  uint64_t submits = 0, dispatches = 0, device_bytes = 0;
};

/// One conversation. One thread at a time may use it.
class DecoderSession {
 public:
  /// `prefill` takes several ids, `step` one; they may be one session, and have the same caches.
  /// `capacity`: the most positions.
  static Result<std::unique_ptr<DecoderSession>> create(std::shared_ptr<Session> prefill,
                                                        std::shared_ptr<Session> step,
                                                        int64_t capacity);
  /// Runs on ids that follow those of earlier calls. The logits are valid until the next call.
  Result<std::span<const float>> advance(std::span<const int64_t> ids);
  /// The number of positions so far.
  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  int64_t vocabulary() const { return prefill_io_.vocabulary; }
  /// What the last call copied between host and device.
  uint64_t copied_bytes() const { return copied_; }
  DecoderStats stats() const;

 private:
  DecoderSession() = default;
  Status allocate_caches();
  Status bind(const DecoderInterface& io, int64_t count);
  void make_inputs(const DecoderInterface& io, std::span<const int64_t> ids);
  std::span<const float> last_logits(const DecoderInterface& io, int64_t count);

  std::shared_ptr<Session> prefill_, step_;
  DecoderInterface prefill_io_, step_io_;
  int64_t capacity_ = 0, length_ = 0;
  uint64_t copied_ = 0, cache_bytes_ = 0;
  /// Of each cache, the one that the next run reads and the one that it writes.
  std::vector<std::unique_ptr<DeviceBuffer>> past_, present_;
  std::vector<HostTensor> host_past_;  // of a session on the host
  HostTensor ids_, mask_, positions_;
  std::vector<Binding> inputs_, outputs_;
  std::vector<HostTensor> results_;
  std::vector<std::byte> logits_bytes_;
  std::vector<float> logits_;
};

}  // namespace reprise::app
