#include "apps/ocr/reader.h"

#include <algorithm>
#include <chrono>

#include "apps/ocr/models.h"
#include "apps/samples/outcome.h"

namespace ocr {

using reprise::Device;
using reprise::Output;
using reprise::Package;
using reprise::Session;
using samples::failed;

namespace {

constexpr int kTurnWidth = 192;  // of lines for the model that tells which way up
constexpr float kSureThatTurned = 0.9F;
constexpr int kWidestLine = 50 * kLineHeight;

/// Adds the time of its life to a sum.
class Stopwatch {
 public:
  explicit Stopwatch(double& sum) : sum_(sum) {}
  ~Stopwatch() { sum_ += std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& sum_;
  Clock::time_point start_ = Clock::now();
};

Error unexpected(const std::string& model, const std::string& found) {
  return {REPRISE_INVALID_MODEL, model + " is not a model of PP-OCR: " + found};
}

}  // namespace

Result<Model> Model::create(const Package& package, const Device& device, const std::string& name) {
  Result<Session> session = Session::create(package, device);
  if (!session) return session.error();
  reprise_slot input = REPRISE_SLOT_INIT;
  if (reprise_session_input_count(session->get()) != 1 ||
      reprise_session_output_count(session->get()) != 1 ||
      reprise_session_input(session->get(), 0, &input, nullptr) != REPRISE_OK ||
      input.dtype != REPRISE_F32 || input.rank != 4)
    return unexpected(name, "expected one input float32[n, 3, h, w] and one output");
  return Model(std::move(*session), input.name);
}

Result<std::vector<float>> Model::run(const Batch& batch, std::vector<int64_t>& dims) {
  const auto outputs = session_.run(
      {{input_.c_str(), batch.values.data(), {batch.count, 3, batch.height, batch.width}}});
  if (!outputs) return outputs.error();
  dims = outputs->front().dims;
  return outputs->front().as<float>();
}

Reader::Reader(ReaderOptions options, Device device, Alphabet alphabet, Model det, Model cls,
               Model rec)
    : options_(std::move(options)),
      device_(std::move(device)),
      alphabet_(std::move(alphabet)),
      det_(std::move(det)),
      cls_(std::move(cls)),
      rec_(std::move(rec)) {}

Result<Reader> Reader::open(const ReaderOptions& options, samples::Validation& validation) {
  const Folder folder{options.models, options.targets, options.recompile};
  std::vector<Package> packages;
  for (const char* name : {"det", "cls", "rec"}) {
    Result<Package> package = folder.package(name);
    if (!package) return package.error();
    packages.push_back(std::move(*package));
  }
  Result<Alphabet> alphabet = folder.alphabet("rec");
  if (!alphabet) return alphabet.error();

  Result<Device> device = samples::open_device(options.device, packages[0], validation);
  if (!device) return device.error();
  Result<Model> det = Model::create(packages[0], *device, "det");
  if (!det) return det.error();
  Result<Model> cls = Model::create(packages[1], *device, "cls");
  if (!cls) return cls.error();
  Result<Model> rec = Model::create(packages[2], *device, "rec");
  if (!rec) return rec.error();
  return Reader(options, std::move(*device), std::move(*alphabet), std::move(*det), std::move(*cls),
                std::move(*rec));
}

Result<std::vector<Line>> Reader::read(const Image& image) {
  times_ = {};
  const Result<std::vector<Quad>> boxes = find(image);
  if (!boxes) return boxes.error();
  std::vector<Image> pictures;
  std::vector<Line> lines;
  for (const Quad& box : *boxes) {
    pictures.push_back(crop(image, box));
    lines.push_back({box, false, {}});
  }
  Error e = set_upright(pictures, lines);
  if (failed(e)) return e;
  e = recognise(pictures, lines);
  if (failed(e)) return e;
  std::erase_if(lines, [&](const Line& line) {
    return line.text.text.empty() || line.text.score < options_.least_score;
  });
  return lines;
}

Result<std::vector<Quad>> Reader::find(const Image& image) {
  const Stopwatch watch(times_.detect);
  const Batch input = detection_input(image, options_.side);
  std::vector<int64_t> dims;
  const Result<std::vector<float>> map = det_.run(input, dims);
  if (!map) return map.error();
  if (dims != std::vector<int64_t>{1, 1, input.height, input.width})
    return unexpected("det", "its output has not the size of its input");
  return find_boxes(*map, input.width, input.height, image.width, image.height, options_.detect);
}

Error Reader::set_upright(std::vector<Image>& pictures, std::vector<Line>& lines) {
  const Stopwatch watch(times_.turn);
  for (const std::vector<size_t>& group : group_by_width(pictures, options_.batch)) {
    Batch batch(static_cast<int>(group.size()), kLineHeight, kTurnWidth);
    for (size_t i = 0; i < group.size(); ++i)
      batch.set(static_cast<int>(i), line_of_batch(pictures[group[i]], kTurnWidth));
    std::vector<int64_t> dims;
    const Result<std::vector<float>> scores = cls_.run(batch, dims);
    if (!scores) return scores.error();
    if (dims != std::vector<int64_t>{batch.count, 2})
      return unexpected("cls", "it does not have two classes");
    for (size_t i = 0; i < group.size(); ++i) {
      if ((*scores)[2 * i + 1] <= kSureThatTurned) continue;
      lines[group[i]].turned = true;
      pictures[group[i]] = turn(pictures[group[i]]);
    }
  }
  return {};
}

Error Reader::recognise(const std::vector<Image>& pictures, std::vector<Line>& lines) {
  const Stopwatch watch(times_.recognise);
  for (const std::vector<size_t>& group : group_by_width(pictures, options_.batch)) {
    std::vector<Image> scaled;
    int width = kNarrowestBatch;
    for (const size_t i : group) {
      scaled.push_back(line_of_batch(pictures[i], kWidestLine));
      width = std::max(width, scaled.back().width);
    }
    Batch batch(static_cast<int>(group.size()), kLineHeight, width);
    for (size_t i = 0; i < group.size(); ++i) batch.set(static_cast<int>(i), scaled[i]);
    std::vector<int64_t> dims;
    const Result<std::vector<float>> scores = rec_.run(batch, dims);
    if (!scores) return scores.error();
    if (dims.size() != 3 || dims[0] != batch.count ||
        dims[2] != static_cast<int64_t>(alphabet_.classes()))
      return unexpected("rec", "its classes are not those of its alphabet");
    const size_t each = static_cast<size_t>(dims[1] * dims[2]);
    for (size_t i = 0; i < group.size(); ++i)
      lines[group[i]].text = alphabet_.decode(std::span(*scores).subspan(i * each, each));
  }
  return {};
}

}  // namespace ocr
