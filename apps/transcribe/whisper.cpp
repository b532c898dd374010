#include "apps/transcribe/whisper.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "apps/samples/outcome.h"
#include "apps/transcribe/mel.h"

namespace transcribe {

using reprise::Buffer;
using reprise::Device;
using reprise::Run;
using reprise::Session;
using reprise::Tensor;
using samples::failed;

namespace {

constexpr double kNobodySpeaks = 0.6;     // probability from which a chunk may be silent
constexpr double kUnsure = -1;            // and the mean logarithm below which it is
constexpr int64_t kMostTokens = 224;      // of a chunk
constexpr size_t kShortest = kRate / 10;  // samples of a chunk that is worth hearing

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

Error not_whisper(const std::string& what) {
  return {REPRISE_INVALID_MODEL,
          "the packages are not those of this program: " + what + "; --recompile makes them again"};
}

}  // namespace

std::vector<Tensor> Whisper::Bound::tensors() const {
  std::vector<Tensor> out;
  out.reserve(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (on_device.empty()) {
      out.emplace_back(names[i].c_str(), on_host[i].data(), dims);
    } else {
      out.emplace_back(names[i].c_str(), on_device[i], dims);
    }
  }
  return out;
}

Whisper::Whisper(Session encoder, Session decoder, Vocabulary vocabulary)
    : encoder_(std::move(encoder)),
      decoder_(std::move(decoder)),
      vocabulary_(std::move(vocabulary)),
      bound_(std::make_unique<Bound>()) {}

Result<Whisper> Whisper::create(const Packages& packages, const Device& device,
                                const Vocabulary& vocabulary) {
  const std::vector<reprise_slot> outputs = packages.encoder.outputs();
  if (outputs.empty() || outputs.size() % 2 != 0 || outputs.front().rank != 3)
    return not_whisper("the encoder has other outputs");
  Result<Session> encoder = Session::create(packages.encoder, device);
  if (!encoder) return encoder.error();
  Result<Session> decoder = Session::create(packages.decoder, device);
  if (!decoder) return decoder.error();
  if (decoder->states().size() != outputs.size())
    return not_whisper("the decoder has other states");
  Whisper whisper(std::move(*encoder), std::move(*decoder), vocabulary);
  for (const reprise_slot& output : outputs) whisper.bound_->names.emplace_back(output.name);
  Error e = whisper.set_up(device, outputs.front());
  if (failed(e)) return e;
  return whisper;
}

Error Whisper::set_up(const Device& device, const reprise_slot& cross) {
  Bound& b = *bound_;
  int64_t count = 1;
  for (size_t i = 0; i < cross.rank; ++i) count *= cross.dims[i];
  if (count <= 0) return not_whisper("the encoder's outputs have no sizes");
  b.dims = reprise::Dims(std::vector<int64_t>(cross.dims, cross.dims + cross.rank));
  const bool on_host = std::string(device.info().id) == "host";
  for (size_t i = 0; i < b.names.size(); ++i) {
    if (on_host) {
      b.on_host.emplace_back(static_cast<size_t>(count));
      continue;
    }
    Result<Buffer> buffer = Buffer::create(device, static_cast<uint64_t>(count) * sizeof(float));
    if (!buffer) return buffer.error();
    b.on_device.push_back(std::move(*buffer));
  }
  b.audio.resize(kPadded);
  b.logits.resize(vocabulary_.size());
  for (const Session* session : {&encoder_, &decoder_}) {
    Result<Run> run = Run::create(*session);
    if (!run) return run.error();
    runs_.push_back(std::move(*run));
  }
  Error e = runs_[0].bind({Tensor("audio", b.audio.data(), {kPadded})}, b.tensors());
  if (failed(e)) return e;
  std::vector<Tensor> inputs = b.tensors();
  inputs.emplace_back("token", &b.token, reprise::Dims{1});
  inputs.emplace_back("position", &b.position, reprise::Dims{1});
  const auto logits = static_cast<int64_t>(b.logits.size());
  e = runs_[1].bind(inputs, {Tensor("logits", b.logits.data(), {1, logits})});
  if (failed(e)) return e;
  longest_ = kMostTokens + static_cast<int64_t>(vocabulary_.prompt.size()) + 1;
  return decoder_.reserve_states(longest_);
}

Error Whisper::step(int64_t token) {
  bound_->token = token;
  Error e = runs_[1].submit();
  if (!failed(e)) e = runs_[1].wait_only();
  ++bound_->position;
  ++times_.steps;
  return e;
}

Result<std::vector<int64_t>> Whisper::tokens_of(std::vector<float> padded) {
  padded.resize(kPadded);
  std::copy(padded.begin(), padded.end(), bound_->audio.begin());
  const auto start = std::chrono::steady_clock::now();
  Error e = runs_[0].submit();
  if (!failed(e)) e = runs_[0].wait_only();
  times_.encode += milliseconds_since(start);
  ++times_.chunks;
  const auto encoded = std::chrono::steady_clock::now();
  if (!failed(e)) e = decoder_.truncate_states(0);
  bound_->position = 0;
  if (!failed(e)) e = step(vocabulary_.start);
  if (failed(e)) return e;
  const double silence = probability_of(bound_->logits, vocabulary_.no_speech);
  for (const int64_t token : vocabulary_.prompt) {
    e = step(token);
    if (failed(e)) return e;
  }
  std::vector<int64_t> tokens;
  double sum = 0;
  while (bound_->position < longest_) {
    const Choice next = choose(bound_->logits, tokens, vocabulary_, true);
    sum += next.log_probability;
    if (next.token == vocabulary_.end) break;
    tokens.push_back(next.token);
    e = step(next.token);
    if (failed(e)) return e;
  }
  times_.decode += milliseconds_since(encoded);
  const double mean = sum / static_cast<double>(tokens.size() + 1);
  if (silence > kNobodySpeaks && mean < kUnsure) tokens.clear();
  return tokens;
}

Result<std::vector<Segment>> Whisper::transcribe(const std::vector<float>& samples,
                                                 const std::function<void(const Segment&)>& heard) {
  std::vector<Segment> all;
  for (size_t begin = 0; begin + kShortest <= samples.size();) {
    const Result<std::vector<int64_t>> tokens = tokens_of(padded_chunk(samples, begin));
    if (!tokens) return tokens.error();
    const double offset = static_cast<double>(begin) / kRate;
    const size_t length = std::min(samples.size() - begin, static_cast<size_t>(kChunk));
    double next = 0;
    for (Segment& s :
         segments_of(*tokens, vocabulary_, static_cast<double>(length) / kRate, next)) {
      s.begin += offset;
      s.end += offset;
      heard(s);
      all.push_back(std::move(s));
    }
    begin += std::max<size_t>(static_cast<size_t>(next * kRate), kShortest);
  }
  return all;
}

}  // namespace transcribe
