// reprise-transcribe: writes down what is said in a recording, with Whisper. It is a sample of a
// model that is built without an ONNX file, and of caches that stay on the device.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/samples/command_line.h"
#include "apps/samples/device.h"
#include "apps/samples/kept_package.h"
#include "apps/samples/outcome.h"
#include "apps/samples/text_output.h"
#include "apps/samples/wav.h"
#include "apps/transcribe/mel.h"
#include "apps/transcribe/whisper.h"

namespace transcribe {
namespace {

using reprise::Device;
using reprise::Package;
using samples::failed;
using samples::kDone;
using samples::kFailed;
using samples::report;
using Json = nlohmann::ordered_json;

struct Options {
  std::string sound, model = ".cache/whisper", device = "auto", json, srt;
  std::vector<std::string> targets;
  bool recompile = false;
  samples::Validation validation;
};

std::string inside(const Options& o, const char* name) {
  return samples::utf8_text(samples::utf8_path(o.model) / name);
}

/// Compiles a part of the model, or opens its package.
template <typename MakeGraph>
Result<Package> package_of(const Options& o, const char* name, const MakeGraph& make_graph) {
  samples::KeptPackage kept;
  kept.model = inside(o, "model.bin");
  kept.package = inside(o, name);
  kept.help = "'tools/models whisper' fetches the model, and --model names its folder";
  kept.targets = o.targets;
  kept.recompile = o.recompile;
  return kept.open([&](const std::string& path, reprise_compile_options* options) {
    const Result<WeightFile> weights = WeightFile::read(path);
    if (!weights) return Result<Package>(weights.error());
    const Result<Sizes> sizes = Sizes::of(*weights);
    if (!sizes) return Result<Package>(sizes.error());
    const Result<reprise::Graph> graph = make_graph(*weights, *sizes);
    if (!graph) return Result<Package>(graph.error());
    options->grow_states = "auto";
    return reprise::compile_graph(*graph, options);
  });
}

/// Hours, minutes, seconds and milliseconds, as SRT has them.
std::string clock_of(double seconds) {
  const long long ms = std::llround(seconds * 1000);
  char text[64];
  std::snprintf(text, sizeof text, "%02lld:%02lld:%02lld,%03lld", ms / 3600000, ms / 60000 % 60,
                ms / 1000 % 60, ms % 1000);
  return text;
}

std::string text_of(const Segment& s, const Vocabulary& vocabulary) {
  const std::string text = vocabulary.text(s.tokens);
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

std::string srt_of(const std::vector<Segment>& segments, const Vocabulary& vocabulary) {
  std::string out;
  for (size_t i = 0; i < segments.size(); ++i) {
    out += std::to_string(i + 1) + "\n" + clock_of(segments[i].begin) + " --> " +
           clock_of(segments[i].end) + "\n" + text_of(segments[i], vocabulary) + "\n\n";
  }
  return out;
}

std::string json_of(const Options& o, const std::vector<Segment>& segments,
                    const Vocabulary& vocabulary, const std::string& device, const Times& times) {
  Json list = Json::array();
  for (const Segment& s : segments) {
    list.push_back(
        {{"begin", s.begin}, {"end", s.end}, {"text", text_of(s, vocabulary)}, {"ids", s.tokens}});
  }
  const Json document{{"sound", o.sound},
                      {"device", device},
                      {"milliseconds", {{"encode", times.encode}, {"decode", times.decode}}},
                      {"chunks", times.chunks},
                      {"steps", times.steps},
                      {"segments", std::move(list)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int run(Options& o) {
  const Result<samples::Sound> recorded = samples::read_wav(o.sound);
  if (!recorded) return report(recorded.error());
  const samples::Sound sound = samples::resampled(*recorded, kRate);
  const Result<Vocabulary> vocabulary =
      Vocabulary::read(inside(o, "vocabulary.txt"), inside(o, "config.json"));
  if (!vocabulary) return report(vocabulary.error());
  Result<Package> encoder = package_of(o, "encoder.rpk", encoder_graph);
  if (!encoder) return report(encoder.error());
  Result<Package> decoder = package_of(o, "decoder.rpk", decoder_graph);
  if (!decoder) return report(decoder.error());
  const Packages packages{std::move(*encoder), std::move(*decoder)};
  const Result<Device> device = samples::open_device(o.device, packages.encoder, o.validation);
  if (!device) return report(device.error());
  Result<Whisper> whisper = Whisper::create(packages, *device, *vocabulary);
  if (!whisper) return report(whisper.error());

  const auto start = std::chrono::steady_clock::now();
  const auto show = [&](const Segment& s) {
    if (o.json == "-" || o.srt == "-") return;
    std::printf("%8.2f %8.2f  %s\n", s.begin, s.end, text_of(s, *vocabulary).c_str());
    std::fflush(stdout);
  };
  const Result<std::vector<Segment>> segments = whisper->transcribe(sound.samples, show);
  if (!segments) return report(segments.error());
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  const std::string id = device->info().id;
  std::fprintf(
      stderr, "note: %s, %.1f s of sound in %.2f s, %lld steps of %.1f ms\n", id.c_str(),
      static_cast<double>(sound.samples.size()) / kRate, spent.count(),
      static_cast<long long>(whisper->times().steps),
      whisper->times().decode / static_cast<double>(std::max<int64_t>(whisper->times().steps, 1)));
  Error e;
  if (!o.srt.empty()) e = samples::write_text(o.srt, srt_of(*segments, *vocabulary));
  if (!failed(e) && !o.json.empty())
    e = samples::write_text(o.json, json_of(o, *segments, *vocabulary, id, whisper->times()));
  if (failed(e)) return report(e);
  return o.validation.complaints ? kFailed : kDone;
}

void declare(CLI::App& app, Options& o) {
  app.add_option("FILE", o.sound, "A WAV file of any rate and length")->required();
  app.add_option(
         "--model", o.model,
         "Folder of a Whisper model of CTranslate2: model.bin, vocabulary.txt and config.json. "
         "The packages that are made of it are kept there")
      ->capture_default_str();
  app.add_option("--srt", o.srt, "Write subtitles to a file; - for standard output");
  app.add_option("--json", o.json,
                 "Write times, text and tokens as JSON to a file; - for standard output");
  samples::add_device_option(app, o.device);
  samples::add_compile_options(app, o.targets, o.recompile, "are packages");
  samples::add_validation_option(app, o.validation);
  app.footer(
      "Prints the beginning and end of each part in seconds, and what is said in it.\n"
      "tools/models whisper fetches the model tiny.en. The first run compiles it and keeps "
      "packages.\n"
      "Examples: reprise-transcribe recording.wav --srt recording.srt\n"
      "          reprise-say \"Hello, world.\" --out hello.wav && reprise-transcribe hello.wav");
}

int parse_and_run(int argc, char** argv) {
  Options o;
  CLI::App app{"Writes down what is said in a recording with Whisper, on a GPU."};
  app.name("reprise-transcribe");
  declare(app, o);
  return samples::run_command(app, argc, argv, [&] { return run(o); });
}

}  // namespace
}  // namespace transcribe

int main(int argc, char** argv) {
  return samples::exit_status_of([&] { return transcribe::parse_and_run(argc, argv); });
}
