// reprise-say: speaks a text with a voice of Piper. It is a sample of a model whose data decide the
// sizes of most tensors.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "apps/samples/command_line.h"
#include "apps/samples/device.h"
#include "apps/samples/kept_package.h"
#include "apps/samples/outcome.h"
#include "apps/samples/text_output.h"
#include "apps/samples/wav.h"
#include "apps/say/phonemes.h"
#include "apps/say/plot.h"
#include "apps/say/speaker.h"
#include "apps/say/voice.h"

namespace say {
namespace {

using reprise::Device;
using reprise::Package;
using samples::failed;
using samples::kDone;
using samples::kFailed;
using samples::report;
using samples::Sound;
using Json = nlohmann::ordered_json;

/// A voice has learned lengths up to a sentence or two; one of this length takes gigabytes.
constexpr size_t kLongest = 4000;

struct Options {
  std::string text, phonemes, voice = ".cache/voice/voice.onnx", out = "say.wav", device = "auto";
  std::string json, plot;
  std::vector<std::string> targets;
  double speed = 1, pause = 0.2, noise = -1, rhythm_noise = -1;
  int64_t speaker = 0;
  bool recompile = false;
  samples::Validation validation;
};

/// What one call has said.
struct Speech {
  Sound sound;
  std::vector<Spoken> sentences;
  std::vector<double> milliseconds;  // of each sentence
};

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

/// The path of a voice without .onnx or .rpk.
std::string stem_of(const std::string& voice) {
  for (const std::string_view ending : {".onnx", ".rpk"})
    if (voice.ends_with(ending)) return voice.substr(0, voice.size() - ending.size());
  return voice;
}

Result<Package> package_of(const Options& o) {
  samples::KeptPackage kept;
  kept.model = stem_of(o.voice) + ".onnx";
  kept.package = stem_of(o.voice) + ".rpk";
  kept.help = "'tools/models voice' fetches a voice, and --voice names its file";
  kept.targets = o.targets;
  kept.recompile = o.recompile;
  return kept.open();
}

Result<std::vector<std::string>> sentences_of(const Options& o, const Voice& voice) {
  if (!o.phonemes.empty()) return std::vector<std::string>{o.phonemes};
  std::string text = o.text;
  if (text == "-") text.assign(std::istreambuf_iterator<char>(std::cin), {});
  Result<std::vector<std::string>> sentences = phonemes_of(text, voice.espeak);
  if (sentences && sentences->empty())
    return Error{REPRISE_INVALID_INPUT, "the text has nothing that can be spoken"};
  return sentences;
}

Style style_of(const Options& o, const Voice& voice) {
  Style style = voice.style;
  style.length /= static_cast<float>(o.speed);
  if (o.noise >= 0) style.noise = static_cast<float>(o.noise);
  if (o.rhythm_noise >= 0) style.rhythm_noise = static_cast<float>(o.rhythm_noise);
  return style;
}

Result<Speech> speak(const std::vector<std::string>& sentences, const Options& o,
                     const Voice& voice, Speaker& speaker) {
  Speech speech{{voice.rate, {}}, {}, {}};
  std::vector<float>& all = speech.sound.samples;
  std::string unknown;
  const auto now = [&] { return static_cast<double>(all.size()) / voice.rate; };
  for (const std::string& sentence : sentences) {
    const Result<std::vector<int64_t>> ids = voice.ids_of(sentence, unknown);
    if (!ids) return ids.error();
    if (ids->size() > kLongest) {
      return Error{REPRISE_INVALID_INPUT, "a sentence makes " + std::to_string(ids->size()) +
                                              " phonemes, and the most is " +
                                              std::to_string(kLongest) +
                                              "; put a full stop into it"};
    }
    if (!all.empty()) all.resize(all.size() + static_cast<size_t>(o.pause * voice.rate));
    const auto start = std::chrono::steady_clock::now();
    const Result<std::vector<float>> samples = speaker.speak(*ids, style_of(o, voice));
    if (!samples) return samples.error();
    speech.milliseconds.push_back(since(start));
    const double begin = now();
    all.insert(all.end(), samples->begin(), samples->end());
    speech.sentences.push_back({sentence, begin, now()});
  }
  if (!unknown.empty())
    std::fprintf(stderr, "note: the voice does not know these phonemes: %s\n", unknown.c_str());
  return speech;
}

Error write_json(const Options& o, const Speech& speech, const std::string& device,
                 double open_ms) {
  Json list = Json::array();
  for (size_t i = 0; i < speech.sentences.size(); ++i) {
    const Spoken& s = speech.sentences[i];
    list.push_back({{"phonemes", s.phonemes},
                    {"begin", s.begin},
                    {"end", s.end},
                    {"milliseconds", speech.milliseconds[i]}});
  }
  const Json document{
      {"out", o.out},     {"rate", speech.sound.rate},    {"samples", speech.sound.samples.size()},
      {"device", device}, {"open_milliseconds", open_ms}, {"sentences", std::move(list)}};
  return samples::write_text(o.json,
                             document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

Error write(const Options& o, const Speech& speech, const std::string& device, double open_ms) {
  Error e = samples::write_wav(speech.sound, o.out);
  if (!failed(e) && !o.plot.empty()) e = write_plot(speech.sound, speech.sentences, o.plot);
  if (!failed(e) && !o.json.empty()) e = write_json(o, speech, device, open_ms);
  return e;
}

int run(Options& o) {
  const Result<Voice> voice = Voice::read(stem_of(o.voice) + ".onnx.json");
  if (!voice) return report(voice.error());
  const Result<std::vector<std::string>> sentences = sentences_of(o, *voice);
  if (!sentences) return report(sentences.error());
  const Result<Package> package = package_of(o);
  if (!package) return report(package.error());

  const auto start = std::chrono::steady_clock::now();
  const Result<Device> device = samples::open_device(o.device, *package, o.validation);
  if (!device) return report(device.error());
  Result<Speaker> speaker = Speaker::create(*package, *device, *voice, o.speaker);
  if (!speaker) return report(speaker.error());
  const double open_ms = since(start);
  const Result<Speech> speech = speak(*sentences, o, *voice, *speaker);
  if (!speech) return report(speech.error());
  const std::string id = device->info().id;
  std::fprintf(stderr, "note: %s, opened in %.2f s, %.1f s of speech in %.2f s: %s\n", id.c_str(),
               open_ms / 1000, speech->sentences.back().end, since(start) / 1000 - open_ms / 1000,
               o.out.c_str());
  const Error e = write(o, *speech, id, open_ms);
  if (failed(e)) return report(e);
  return o.validation.complaints ? kFailed : kDone;
}

void declare(CLI::App& app, Options& o) {
  auto* const text = app.add_option("TEXT", o.text, "What to say; - reads standard input");
  app.add_option("--phonemes", o.phonemes,
                 "Say one sentence that is given in the phonetic alphabet (IPA) instead")
      ->excludes(text);
  app.add_option(
         "--voice", o.voice,
         "A voice of Piper: VOICE.onnx, or the package VOICE.rpk that is made of it and kept "
         "beside it. VOICE.onnx.json has its phonemes")
      ->capture_default_str();
  app.add_option("--out", o.out, "The WAV file to write")->capture_default_str();
  app.add_option("--speed", o.speed, "How fast: 2 is twice as fast as the voice")
      ->check(CLI::Range(0.2, 5.0))
      ->capture_default_str();
  app.add_option("--pause", o.pause, "Seconds of silence between sentences")
      ->check(CLI::Range(0.0, 60.0))
      ->capture_default_str();
  app.add_option("--noise", o.noise, "How much the sound varies, instead of the voice's own value")
      ->check(CLI::Range(0.0, 10.0));
  app.add_option("--rhythm-noise", o.rhythm_noise,
                 "How much the lengths of phonemes vary, likewise")
      ->check(CLI::Range(0.0, 10.0));
  app.add_option("--speaker", o.speaker, "Whose voice, if the model has several")
      ->capture_default_str();
  samples::add_device_option(app, o.device);
  samples::add_compile_options(app, o.targets, o.recompile, "is a package");
  app.add_option(
      "--json", o.json,
      "Write phonemes and times of each sentence as JSON to a file; - for standard output");
  app.add_option("--plot", o.plot, "Draw the sound, as SVG");
  samples::add_validation_option(app, o.validation);
  app.footer(
      "tools/models voice fetches an English voice. The first run compiles it and keeps the "
      "package;\n"
      "the first run on a device also builds its kernels, which the driver or Reprise keeps.\n"
      "With --noise 0 --rhythm-noise 0, all devices make the same sound.\n"
      "Examples: reprise-say \"Hello, world.\" --out hello.wav\n"
      "          reprise-say - --speed 1.3 --out letter.wav < letter.txt\n"
      "          reprise-say --phonemes \"həlˈoʊ\" --device host");
}

int parse_and_run(int argc, char** argv) {
  Options o;
  CLI::App app{"Speaks a text with a voice of Piper, on a GPU, and writes a WAV file."};
  app.name("reprise-say");
  declare(app, o);
  return samples::run_command(app, argc, argv, [&] {
    if (o.text.empty() && o.phonemes.empty())
      return report({REPRISE_USAGE, "give TEXT or --phonemes (try --help)"});
    return run(o);
  });
}

}  // namespace
}  // namespace say

int main(int argc, char** argv) {
  return samples::exit_status_of([&] { return say::parse_and_run(argc, argv); });
}
