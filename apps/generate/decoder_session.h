// A language model with caches: takes ids, and gives the logits of the position behind them, or the
// id that was sampled from these.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "apps/generate/sampler.h"
#include "runtime/session/session.h"

namespace reprise::app {

/// A cache as an input and as an output of the model.
struct CachePair {
  std::string past, present;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;  // -1 for the length, which axis `axis` has
  size_t axis = 0;
};

/// The tensors of a language model: `input_ids`, perhaps `attention_mask` and `position_ids`;
/// `logits`, or `sampled_ids` of a package that samples; and caches, which are states that grow, or
/// pairs such as `past_key_values.0.key` and `present.0.key`. Other inputs are an error.
struct DecoderInterface {
  std::string ids, mask, positions;
  std::string logits, sampled;  // one of them is empty
  DType ids_type = DType::I64, mask_type = DType::I64, positions_type = DType::I64;
  DType logits_type = DType::F32, sampled_type = DType::I64;
  bool all_logits = false;  // of every position, not of the last one alone
  int64_t vocabulary = 0;   // 0: unknown, of a package that samples
  bool grows = false;       // it has states that grow
  std::vector<CachePair> caches;
  /// Whether all caches are states that grow, so that there can be several texts.
  bool has_texts() const { return grows && caches.empty(); }
};
Result<DecoderInterface> decoder_interface(const plan::Interface& io);

struct DecoderStats {
  uint64_t submits = 0, dispatches = 0, device_bytes = 0;
};

/// One conversation, or several that take turns. One thread at a time may use it.
class DecoderSession {
 public:
  /// A conversation with states of its own. Forks of its states begin another.
  struct Text {
    std::shared_ptr<States> states;
    int64_t length = 0;
  };
  /// `capacity`: the most positions. `vocabulary`: of a package that samples; 0: unknown. Nobody
  /// else may use the session. `texts`: it serves conversations of make_text() only, and reserves
  /// no memory; Code::Unsupported if its caches are no states that grow.
  static Result<std::unique_ptr<DecoderSession>> create(std::unique_ptr<Session> session,
                                                        int64_t capacity, int64_t vocabulary = 0,
                                                        bool texts = false);
  bool has_texts() const { return texts_; }
  Result<Text> make_text();
  /// From now on, all calls concern this text. The caller keeps length() with it.
  Status use(const Text& text);
  /// Forgets a text that may be in use.
  void leave(const Text& text);
  /// Writes the caches to a file of Session::save_states(), and goes on with those of one.
  Status save(const std::string& path) { return session_->save_states(path); }
  Status load(const std::string& path);
  /// The values of all states, and back.
  Result<std::vector<HostTensor>> read_states();
  Status write_states(std::span<const HostTensor> values);
  /// How a package that samples chooses; by default it takes the likeliest id.
  Status set_sampling(const SamplingOptions& options);
  bool samples() const { return !io_.sampled.empty(); }
  /// Runs on ids that follow those of earlier calls. The logits are valid until the next call. Only
  /// if the package does not sample.
  Result<std::span<const float>> advance(std::span<const int64_t> ids);
  /// What the last advance() has returned.
  std::span<const float> logits() const { return logits_; }
  /// Runs likewise, and returns the id that was sampled. An id that the call before has returned
  /// is not copied to the device, which has it. Only if the package samples.
  Result<int64_t> sample(std::span<const int64_t> ids);
  /// Keeps the first positions, from which a session with states that grow can go on.
  Status truncate(int64_t length);
  /// Begins a new text.
  Status restart();
  /// The number of positions so far.
  int64_t length() const { return length_; }
  int64_t capacity() const { return capacity_; }
  int64_t vocabulary() const { return io_.vocabulary; }
  /// What the last call moved between host and device.
  uint64_t copied_bytes() const { return copied_; }
  DecoderStats stats() const;

 private:
  DecoderSession() = default;
  Status prepare();
  Status allocate_caches();
  Status allocate_inputs();
  Status check(std::span<const int64_t> ids) const;
  Status run(std::span<const int64_t> ids);
  void make_inputs(std::span<const int64_t> ids);
  void bind_caches();
  void bind_inputs(std::span<const int64_t> ids);
  void bind_result(int64_t count);
  void bind_host(const std::string& name, const HostTensor& t);
  const HostTensor& result(const std::string& name) const;
  std::span<const float> last_logits(int64_t count);
  Result<int64_t> sampled_id();

  std::unique_ptr<Session> session_;
  std::shared_ptr<States> used_;  // of the text in use
  bool texts_ = false;
  DecoderInterface io_;
  int64_t capacity_ = 0, length_ = 0;
  uint64_t copied_ = 0, own_bytes_ = 0;
  /// Of each cache that is no state, the one that the next run reads and the one that it writes.
  std::vector<std::unique_ptr<DeviceBuffer>> past_, present_;
  std::vector<HostTensor> host_past_;  // of a session on the host
  /// Memory that host and device see. Runs sample ids to two places in turn and read the next one
  /// where the last run left it.
  std::unique_ptr<DeviceBuffer> sampled_;
  int64_t last_sampled_ = -1;              // -1: the next run does not read it
  bool second_place_ = false;              // where the last run has sampled to
  std::unique_ptr<DeviceBuffer> ones_;     // for the mask of every length
  std::unique_ptr<DeviceBuffer> numbers_;  // of sampling, 16 bytes apart
  std::vector<HostTensor> sampling_;
  HostTensor ids_, mask_, positions_;
  std::vector<Binding> inputs_, outputs_;
  std::vector<HostTensor> results_;
  std::vector<std::byte> logits_bytes_;
  std::vector<float> logits_;
};

}  // namespace reprise::app
